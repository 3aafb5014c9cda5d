// Reads the state of a process from the kernel: memory from /proc/PID/status, loaded objects from
// its link map, children.
//
// Invariant: nothing here writes to the watched process or allocates on its behalf; every number is
// in KiB, and 0 if the kernel reports none (a zombie has no memory). Thread-safety: only launch.c,
// one thread.
#pragma once

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

struct memory {
  long hwm;  // VmHWM: the largest resident set so far
  long rss;  // VmRSS
  long pte;  // VmPTE: page tables
};

// Reads a whole small /proc file; returns its length, 0 on failure. The text ends with a NUL.
static size_t read_proc(pid_t pid, const char* name, char* text, size_t capacity) {
  char path[64];
  text[0] = 0;
  snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t length = 0;
  ssize_t got;
  while (length + 1 < capacity && (got = read(fd, text + length, capacity - 1 - length)) > 0)
    length += (size_t)got;
  close(fd);
  if (length + 1 == capacity) {  // cut off: the last number may be incomplete
    while (length > 0 && text[length - 1] != ' ' && text[length - 1] != '\n') --length;
  }
  text[length] = 0;
  return length;
}

static long field(const char* text, const char* name) {
  const char* found = strstr(text, name);
  return found == NULL ? 0 : strtol(found + strlen(name), NULL, 10);
}

static struct memory memory_of(pid_t pid) {
  char text[4096];
  if (read_proc(pid, "status", text, sizeof text) == 0) return (struct memory){0};
  return (struct memory){field(text, "\nVmHWM:"), field(text, "\nVmRSS:"), field(text, "\nVmPTE:")};
}

// The sum over `pid` and every living descendant that a main thread forked. Needs
// CONFIG_PROC_CHILDREN; without it, only `pid` counts.
static struct memory memory_of_tree(pid_t pid) {
  struct memory sum = memory_of(pid);
  char name[64], text[4096];
  snprintf(name, sizeof name, "task/%d/children", pid);
  read_proc(pid, name, text, sizeof text);
  char* rest = text;
  for (long child; (child = strtol(rest, &rest, 10)) > 0;) {
    const struct memory below = memory_of_tree((pid_t)child);
    sum.hwm += below.hwm, sum.rss += below.rss, sum.pte += below.pte;
  }
  return sum;
}

// Prints `waited NS`, how long the process's first thread waited for a processor, if the kernel
// counts that.
static void print_waiting(pid_t pid, FILE* out) {
  char text[128];
  if (read_proc(pid, "schedstat", text, sizeof text) == 0) return;
  char* waited;
  strtoul(text, &waited, 10);  // the first number is the time on a processor
  fprintf(out, "waited %lu\n", strtoul(waited, NULL, 10));
}

// The address of the program's dynamic section, from the auxiliary vector and the program headers;
// 0 for a static program.
static unsigned long dynamic_section(pid_t pid, int memory_fd) {
  char text[1024];
  const size_t length = read_proc(pid, "auxv", text, sizeof text);
  unsigned long headers = 0, count = 0;
  for (size_t at = 0; at + sizeof(ElfW(auxv_t)) <= length; at += sizeof(ElfW(auxv_t))) {
    ElfW(auxv_t) entry;
    memcpy(&entry, text + at, sizeof entry);
    if (entry.a_type == AT_PHDR) headers = entry.a_un.a_val;
    if (entry.a_type == AT_PHNUM) count = entry.a_un.a_val;
  }
  unsigned long bias = 0, dynamic = 0;
  for (unsigned long i = 0; i < count; ++i) {
    ElfW(Phdr) header;
    if (pread(memory_fd, &header, sizeof header, (off_t)(headers + i * sizeof header)) !=
        sizeof header)
      return 0;
    if (header.p_type == PT_PHDR) bias = headers - header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) dynamic = header.p_vaddr;
  }
  return dynamic == 0 ? 0 : bias + dynamic;
}

// Prints `object PID PATH` for every object of the link map, in search order: the first object that
// defines a symbol provides it. The program itself has an empty name there, and is printed as
// `program PID PATH`.
static void print_objects(pid_t pid, FILE* out) {
  char path[4096];
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  char program[4096];
  const ssize_t length = readlink(path, program, sizeof program - 1);
  program[length > 0 ? length : 0] = 0;
  fprintf(out, "program %d %s\n", pid, program);

  snprintf(path, sizeof path, "/proc/%d/mem", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  struct r_debug debug = {0};
  ElfW(Dyn) entry;
  for (unsigned long at = dynamic_section(pid, fd); at != 0; at += sizeof entry) {
    if (pread(fd, &entry, sizeof entry, (off_t)at) != sizeof entry || entry.d_tag == DT_NULL) break;
    if (entry.d_tag != DT_DEBUG || entry.d_un.d_ptr == 0) continue;
    if (pread(fd, &debug, sizeof debug, (off_t)entry.d_un.d_ptr) != sizeof debug)
      debug.r_map = NULL;
  }
  struct link_map object;
  for (struct link_map* at = debug.r_map; at != NULL; at = object.l_next) {
    if (pread(fd, &object, sizeof object, (off_t)(unsigned long)at) != sizeof object) break;
    const ssize_t got = pread(fd, path, sizeof path - 1, (off_t)(unsigned long)object.l_name);
    path[got > 0 ? got : 0] = 0;
    if (path[0] != 0) fprintf(out, "object %d %s\n", pid, path);
  }
  close(fd);
}

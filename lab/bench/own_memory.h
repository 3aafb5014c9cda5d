// Reads the memory use of the running program, and which malloc serves it, without calling malloc.
//
// Invariant: reading does not change the heap, and adds at most one stack page to the resident set.
// Thread-safety: any thread; C and C++. Source: proc(5), dlsym(3), dladdr(3).
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

struct memory_use {
  long rss_kib;
  long hwm_kib;
  long pte_kib;
};

// The number after `label` in a file of /proc; 0 if there is none.
static inline long proc_number(const char* path, const char* label) {
  char text[4096];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  text[length > 0 ? length : 0] = 0;
  const char* found = strstr(text, label);
  return found == NULL ? 0 : strtol(found + strlen(label), NULL, 10);
}

// What the process would have on the simulated machine, whose engine knows it (engine/profile.cc).
static inline long simulated_rss_kib(void) {
  long (*present)(void) = NULL;
  void* const found = dlsym(RTLD_DEFAULT, "near_manycore_present_kib");
  memcpy(&present, &found, sizeof found);
  return present == NULL ? 0 : present();
}

// RSS comes from smaps_rollup, which counts pages: before Linux 6.16, VmRSS may be wrong by some
// 100 KiB.
static inline struct memory_use own_memory(void) {
  struct memory_use memory;
  memory.rss_kib = getenv("NEAR_MANYCORE_RUN") != NULL
                       ? simulated_rss_kib()
                       : proc_number("/proc/self/smaps_rollup", "\nRss:");
  memory.hwm_kib = proc_number("/proc/self/status", "\nVmHWM:");
  memory.pte_kib = proc_number("/proc/self/status", "\nVmPTE:");
  return memory;
}

static inline const char* malloc_from(void) {
  Dl_info info;
  void* const address = dlsym(RTLD_DEFAULT, "malloc");
  return address != NULL && dladdr(address, &info) != 0 ? info.dli_fname : "unknown";
}

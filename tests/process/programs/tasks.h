/* What the C programs say about the threads of their process, as the kernel lists them.
 * Invariant: nothing here allocates, so it observes the allocator without changing it.
 * Thread-safety: any thread; nothing here has state. */
#ifndef NEAR_TESTS_PROCESS_PROGRAMS_TASKS_H
#define NEAR_TESTS_PROCESS_PROGRAMS_TASKS_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>

#include "common.h"

enum { kStatusRoom = 8192 };

static inline void sleep_ms(long milliseconds) {
  const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  nanosleep(&time, NULL);
}

/* The status file of a task, 0 for the process; false if there is no such task. */
static inline bool read_status(int task, char* text) {
  char path[64];
  if (task == 0) {
    snprintf(path, sizeof path, "/proc/self/status");
  } else {
    snprintf(path, sizeof path, "/proc/self/task/%d/status", task);
  }
  const int file = open(path, O_RDONLY);
  if (file < 0) return false;
  const ssize_t got = read(file, text, kStatusRoom - 1);
  close(file);
  text[got > 0 ? got : 0] = '\0';
  return got > 0;
}

/* A field of such a file as a number. */
static inline uint64_t status_number(int task, const char* key, int base) {
  char text[kStatusRoom];
  CHECK(read_status(task, text));
  const char* found = strstr(text, key);
  CHECK(found != NULL);
  return strtoull(found + strlen(key), NULL, base);
}

static inline int thread_count(void) { return (int)status_number(0, "\nThreads:", 10); }

/* The kernel takes a thread that was joined out of its list a moment later, whatever the allocator
 * is: waits for so many threads up to twenty seconds. Returns how many there are then. */
static inline int settled_thread_count(int wanted) {
  for (int i = 0; i < 2000 && thread_count() != wanted; ++i) sleep_ms(10);
  return thread_count();
}

/* The task of the allocator's own thread, or 0. */
static inline int find_helper(void) {
  char entries[4096];
  int found = 0;
  const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
  CHECK(folder >= 0);
  long length;
  while ((length = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
    for (long at = 0; at < length;) {
      const char* entry = entries + at;
      const int task = atoi(entry + 19); /* struct linux_dirent64: d_name */
      char text[kStatusRoom];
      if (task > 0 && read_status(task, text) && strncmp(text, "Name:\tnearmalloc\n", 17) == 0) {
        found = task;
      }
      at += *(const unsigned short*)(entry + 16); /* d_reclen */
    }
  }
  close(folder);
  return found;
}

#endif

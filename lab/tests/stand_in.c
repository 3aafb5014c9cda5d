// A library that poses as nearmalloc in the lab's tests: glibc's malloc under four names.
// Invariant: it serves malloc, except for the one fault it is built with (-DFAULT=...).
// Thread-safety: that of glibc's malloc. The lab's tests compile it.
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

enum { kNone, kCrash };
#ifndef FAULT
#define FAULT kNone
#endif
enum { kCrashAt = 20000 };

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void __libc_free(void* block);

const char* near_version(void) { return "0.0.0"; }

void* malloc(size_t size) {
  static _Atomic int calls;
  if (FAULT == kCrash && ++calls == kCrashAt) raise(SIGSEGV);
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void* realloc(void* block, size_t size) { return __libc_realloc(block, size); }
void free(void* block) { __libc_free(block); }

// A library that serves glibc's malloc with a known burden: WORK loop iterations at every malloc,
// and PAD percent more bytes than requested. It makes the changes that a comparison must detect.
// Invariant: with both 0 it only forwards the calls. Thread-safety: that of glibc's malloc. The
// lab's tests compile it.
#include <stddef.h>

#ifndef WORK
#define WORK 0
#endif
#ifndef PAD
#define PAD 0
#endif

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void __libc_free(void* block);

void* malloc(size_t size) {
  for (int i = 0; i < WORK; ++i) __asm__ volatile("");
  return __libc_malloc(size + size * PAD / 100);
}

void* calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void* realloc(void* block, size_t size) { return __libc_realloc(block, size); }
void free(void* block) { __libc_free(block); }

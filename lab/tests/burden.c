// A library that serves glibc's malloc with a known burden: WORK loop iterations at every malloc,
// and PAD percent more bytes than were asked for. What a comparison must notice is made of it.
// Invariant: with both 0 it does nothing but pass on. Thread-safety: the lab's tests, which
// compile it.
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

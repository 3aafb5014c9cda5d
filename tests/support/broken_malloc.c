/* A malloc that is wrong on purpose, to see that the tests notice. BROKEN_MALLOC names the
 * fault.
 * Invariant: without BROKEN_MALLOC it is the C library's.
 * Thread-safety: any thread may use it. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* block, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void* block);

enum { kFrom = 3000, kTo = 3100 };

static int broken(const char* fault) {
  const char* chosen = getenv("BROKEN_MALLOC");
  return chosen != NULL && strcmp(chosen, fault) == 0;
}

static int is_hit(size_t size) { return size >= kFrom && size <= kTo; }

void* malloc(size_t size) {
  static void* previous;
  if (is_hit(size) && broken("overlap")) {
    void* block = previous != NULL ? previous : __libc_malloc(kTo);
    previous = previous != NULL ? NULL : block;
    return block;
  }
  if (is_hit(size) && broken("short")) return __libc_malloc(size / 2);
  if (is_hit(size) && broken("misaligned")) return (char*)__libc_malloc(size + 8) + 8;
  if (size > PTRDIFF_MAX && broken("errno")) return NULL;
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  if (broken("overflow")) return __libc_malloc(count * size);
  if (is_hit(count * size) && broken("dirty")) return __libc_malloc(count * size);
  return __libc_calloc(count, size);
}

void* realloc(void* block, size_t size) {
  if (block != NULL && is_hit(size) && broken("forgetful")) {
    __libc_free(block);
    return __libc_calloc(1, size);
  }
  return __libc_realloc(block, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  return __libc_memalign(broken("unaligned") && alignment > 4096 ? 16 : alignment, size);
}

int posix_memalign(void** out, size_t alignment, size_t size) {
  *out = __libc_memalign(alignment, size);
  return *out == NULL ? errno : 0;
}

void free(void* block) {
  if (broken("leak")) return;
  __libc_free(block);
  if (broken("free")) errno = EAGAIN;
}

size_t malloc_usable_size(void* block) {
  if (block == NULL) return 0;
  const size_t head =
      *((size_t*)block - 1); /* glibc's: size, three flags of which 2 means mapped */
  const size_t usable = (head & ~(size_t)7) - ((head & 2) != 0 ? 16 : 8);
  return broken("usable") ? usable / 2 : usable;
}

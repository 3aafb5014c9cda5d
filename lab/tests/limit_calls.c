// Checks the promises of the limit allocator's calls (it is preloaded, with LIMIT_MIB=1). Prints
// each fault and ends with status 1. Thread-safety: one thread. The lab's tests compile it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMiB = 1 << 20, kBlocks = 30000 };

static void check(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "wrong: %s\n", what);
  exit(1);
}

static int holds(const char* block, char value, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    if (block[i] != value) return 0;
  }
  return 1;
}

static void check_early(void) {
  static char* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = memset(malloc(100), i & 127, 100);
    free(blocks[i]);
  }
  for (int i = 0; i < kBlocks; ++i) {
    check(holds(blocks[i], (char)(i & 127), 100), "early memory is used again");
  }
}

static void check_laps(void) {
  for (int i = 0; i < kMiB / 64; ++i) (void)!malloc(64);  // uses up the rest of the early memory
  char* const first = malloc(64);
  long others = 0;
  while (malloc(64) != first && others < kMiB) ++others;
  check(others > kMiB / 128 && others < kMiB / 64, "a lap is not the buffer");
  for (size_t i = 0; i < 500000; ++i) {
    const size_t size = i * 7919 % 97;
    char* const block = memset(malloc(size), 1, size);
    check(block - first < kMiB && first - block < kMiB, "a lap leaves the buffer");
  }
  for (int i = 0; i < 100; ++i) check(holds(calloc(5, 100), 0, 500), "calloc is not zeroed");
  volatile size_t huge = SIZE_MAX;  // volatile, because the compiler would warn
  check(calloc(huge / 2, 3) == NULL && malloc(huge) == NULL, "a size overflows");
}

static void check_realloc(void) {
  const size_t sizes[] = {1, 40, 5000, 900000, 3 * kMiB, 9 * kMiB, 2 * kMiB, 700, 8};
  char* block = memset(realloc(NULL, 1), 7, 1);
  size_t before = 1;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    const size_t size = sizes[i];
    block = realloc(block, size);
    check(holds(block, 7, before < size ? before : size), "realloc loses contents");
    check(malloc_usable_size(block) == size, "malloc_usable_size");
    memset(block, 7, size);
    before = size;
  }
  free(block);
}

static void check_aligned(void) {
  for (size_t alignment = 8; alignment <= 1 << 16; alignment *= 2) {
    for (size_t size = 1; size < 4 * kMiB; size = size * 5 + 1) {
      void* block = NULL;
      check(posix_memalign(&block, alignment, size) == 0, "posix_memalign fails");
      check((uintptr_t)block % alignment == 0, "posix_memalign does not align");
      check(malloc_usable_size(block) == size, "malloc_usable_size of an aligned block");
      memset(block, 1, size);
      free(block);
    }
  }
  void* block = NULL;
  check(posix_memalign(&block, 24, 8) != 0, "posix_memalign takes a wrong alignment");
  check((uintptr_t)valloc(10) % 4096 == 0 && (uintptr_t)pvalloc(10) % 4096 == 0, "valloc");
  check((uintptr_t)aligned_alloc(64, 640) % 64 == 0, "aligned_alloc");
}

int main(void) {
  void (*begin)(size_t) = NULL;
  *(void**)&begin = dlsym(RTLD_DEFAULT, "limit_begin");
  check(begin != NULL, "it is not preloaded");
  check_early();
  check_realloc();
  check_aligned();
  begin(1);
  check_laps();
  check_realloc();
  check_aligned();
  free(NULL);
  return 0;
}

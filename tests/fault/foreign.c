/* Blocks of the C library's own malloc, found behind the overriding one: their free must reach
 * it.
 * Invariant: the C library's count of bytes in use is after as before. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                    \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      exit(1);                                                \
    }                                                         \
  } while (0)

enum { kBlocks = 2000 };

static void find(void* library, const char* name, void* function) {
  *(void**)function = dlsym(library, name);
  REQUIRE(*(void**)function != NULL);
}

int main(void) {
  void* library = dlopen("libc.so.6", RTLD_NOW);
  REQUIRE(library != NULL);
  void* (*libc_malloc)(size_t);
  struct mallinfo2 (*libc_mallinfo)(void);
  int (*owns)(const void*);
  size_t (*free_batch)(void* const*, size_t);
  find(library, "malloc", &libc_malloc);
  find(library, "mallinfo2", &libc_mallinfo);
  find(RTLD_DEFAULT, "near_owns", &owns);
  find(RTLD_DEFAULT, "near_free_batch", &free_batch);
  REQUIRE(libc_malloc != malloc);
  static char* blocks[kBlocks];
  libc_malloc(1);
  const struct mallinfo2 before = libc_mallinfo();
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks[i] = libc_malloc(i % 50 == 0 ? 1000000 : 2000 + i);
    memset(blocks[i], 'x', 2000);
    REQUIRE(!owns(blocks[i]));
    REQUIRE(malloc_usable_size(blocks[i]) >= 2000 + (i % 50 == 0 ? 0 : i));
  }
  REQUIRE(libc_mallinfo().uordblks > before.uordblks + 2000 * kBlocks / 2);
  for (size_t i = 0; i < kBlocks; ++i) {
    if (i % 7 == 3) {
      blocks[i] = realloc(blocks[i], 5000);
      REQUIRE(blocks[i] != NULL && memcmp(blocks[i], "xxxxxxxx", 8) == 0 && blocks[i][1999] == 'x');
    }
    if (i % 2 == 0) free(blocks[i]);
  }
  void* batch[kBlocks / 2];
  for (size_t i = 0; i < kBlocks / 2; ++i) batch[i] = blocks[2 * i + 1];
  REQUIRE(free_batch(batch, kBlocks / 2) > kBlocks / 4);
  REQUIRE(libc_mallinfo().uordblks <= before.uordblks + 100000);
  REQUIRE(libc_mallinfo().hblkhd <= before.hblkhd);
  printf("%d blocks went home\n", kBlocks);
  return 0;
}

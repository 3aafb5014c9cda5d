/* A program with a malloc of its own, a pointer that moves through an arena, that gives its blocks
 * to the near_* functions. Linked to libnearmalloc-api.so, which leaves malloc alone.
 * Invariant: the program's own free and realloc see every block of its own malloc. */
#include <nearmalloc/nearmalloc.h>
#include <sys/mman.h>

#include "common.h"

enum { kArena = 64 << 20, kHeader = 16 };

static char* arena;
static size_t used;
static int freed;

void* malloc(size_t size) {
  if (arena == NULL) {
    arena = mmap(NULL, kArena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED) abort();
  }
  if (size > kArena - used - 2 * kHeader) return NULL;
  char* block = arena + used + kHeader;
  used += (size + 2 * kHeader - 1) / kHeader * kHeader;
  *(size_t*)(void*)(block - kHeader) = size;
  return block;
}

size_t malloc_usable_size(void* block) { return *(size_t*)(void*)((char*)block - kHeader); }

void free(void* block) {
  if (block == NULL) return;
  if ((char*)block < arena || (char*)block >= arena + used) abort();
  ++freed;
}

void* calloc(size_t count, size_t size) { return malloc(count * size); } /* the arena is zero */

void* realloc(void* block, size_t size) {
  void* moved = malloc(size);
  if (moved == NULL || block == NULL) return moved;
  const size_t before = malloc_usable_size(block);
  memcpy(moved, block, before < size ? before : size);
  free(block);
  return moved;
}

int main(void) {
  freed = 0;
  for (size_t size = 1; size < 3000000; size = size * 3 + 7) {
    const int before = freed;
    near_free(take(size));
    unsigned char* block = take(size);
    CHECK(near_malloc_usable_size(block) == size);
    block = near_realloc(block, size + 5000);
    CHECK(block != NULL && block[0] == size % 251 && block[size - 1] == size % 251);
    CHECK(near_malloc_usable_size(block) == size + 5000);
    near_free(block);
    CHECK(freed == before + 3);
  }
  puts("all went home");
  return 0;
}

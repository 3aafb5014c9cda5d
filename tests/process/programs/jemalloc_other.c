/* Asks mallctl in a program with a malloc in the executable.
 * Thread-safety: one thread. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "support/jemalloc_functions.h"

static _Alignas(16) char memory[8 << 20];
static size_t used;

/* The size stands before the block. */
void* malloc(size_t size) {
  char* block = memory + used + 16;
  memcpy(block - 16, &size, sizeof size);
  used += (size + 31) / 16 * 16;
  return used < sizeof memory ? block : NULL;
}
void free(void* block) { (void)block; }
void* calloc(size_t count, size_t size) { return malloc(count * size); }
void* realloc(void* block, size_t size) {
  void* moved = malloc(size);
  size_t before = 0;
  if (block == NULL) return moved;
  memcpy(&before, (char*)block - 16, sizeof before);
  return memcpy(moved, block, before < size ? before : size);
}

int main(void) {
  size_t value = 0;
  size_t length = sizeof value;
  size_t mib[4];
  size_t parts = 4;
  if (mallctl == NULL) return puts("no mallctl"), 0;
  malloc_stats_print(NULL, NULL, NULL);
  printf("%s\n", strerror(mallctl("stats.allocated", &value, &length, NULL, 0)));
  printf("%s\n", strerror(mallctlnametomib("epoch", mib, &parts)));
  return 0;
}

// A library with fork handlers that allocate. Its constructor runs before those of preloaded
// libraries. The handlers run while the allocator holds no lock, or never come back.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int atfork_calls = 0;

static void use_memory(void) {
  for (size_t size = 1; size < 300000; size += size / 4 + 1) {
    char* block = malloc(size);
    memset(block, 1, size);
    free(block);
  }
  atfork_calls++;
}

__attribute__((constructor)) static void start(void) {
  pthread_atfork(use_memory, use_memory, use_memory);
}

/* Four threads that allocate all sizes and hand blocks on; what the tests of machine settings
 * run.
 * Invariant: the output is a function of nothing but this file. */
#include "common.h"

enum { kThreads = 4, kSlots = 512 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned char* slots[kSlots];
static size_t sizes[kSlots];

static void* exchange_blocks(void* argument) {
  uint64_t state = (uint64_t)(uintptr_t)argument;
  for (int i = 0; i < 40000; ++i) {
    size_t size = next_random(&state) % 3000 + (i % 500 == 0 ? 2000000 : 0);
    unsigned char* block = take(size);
    const size_t slot = next_random(&state) % kSlots;
    pthread_mutex_lock(&mutex);
    unsigned char* old = slots[slot];
    const size_t old_size = sizes[slot];
    slots[slot] = block;
    sizes[slot] = size;
    pthread_mutex_unlock(&mutex);
    if (old != NULL) give_back(old, old_size);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], NULL, exchange_blocks, (void*)(i + 1)) == 0);
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  int left = 0;
  for (int i = 0; i < kSlots; ++i) {
    left += slots[i] != NULL;
    if (slots[i] != NULL) give_back(slots[i], sizes[i]);
  }
  printf("%d blocks were left\n", left);
  return 0;
}

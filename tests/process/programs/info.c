/* Prints malloc_info for a process with blocks of many sizes in several threads. */
#include "common.h"

static void* churn_once(void* seed) {
  churn((uint64_t)(uintptr_t)seed, 2000);
  return NULL;
}

int main(void) {
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; ++i)
    CHECK(pthread_create(&threads[i], NULL, churn_once, (void*)i) == 0);
  unsigned char* large = take(5000000);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  CHECK(malloc_info(0, stdout) == 0);
  give_back(large, 5000000);
  return 0;
}

/* A library that the loader starts before all others (-z initfirst), preloaded ones too, and that
 * creates a thread there. */
#include <pthread.h>

int early_threads = 0;

static void* count_itself(void* unused) {
  early_threads++;
  return unused;
}

__attribute__((constructor)) static void start(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, count_itself, NULL) == 0) pthread_join(thread, NULL);
}

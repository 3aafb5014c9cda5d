/* Thread-specific data: a key that the program forgot to create is refused, as without a library
 * that creates keys of its own. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  free(malloc(1));
  static pthread_key_t forgotten;
  const int refused = pthread_setspecific(forgotten, &forgotten);
  pthread_key_t key;
  const int created = pthread_key_create(&key, NULL);
  const int kept = pthread_setspecific(key, &key);
  printf("%d %d %d %d\n", refused, created, kept, pthread_getspecific(key) == &key);
  return 0;
}

/* A correct program for the runtimes of sanitizers: threads that allocate and end, and children.
 * With OWN_NAMES it also uses near_malloc, and with the argument f near_free gets one of
 * malloc. Prints "ok". */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef OWN_NAMES
#include <nearmalloc/nearmalloc.h>
#else
#define near_malloc malloc
#define near_realloc realloc
#define near_free free
#endif

enum { kRounds = 4, kThreads = 4, kBlocks = 2000, kChildStatus = 7 };

static _Atomic(char*) passed_on; /* a block that the thread which takes it frees */

static void fail(const char* what) {
  fprintf(stderr, "%s failed\n", what);
  _Exit(1);
}

/* Allocates from both, and frees some blocks of other threads. */
static void* work(void* given) {
  free(given);
  for (size_t i = 0; i < kBlocks; i++) {
    char* block = near_malloc(i % 900 + 1);
    char* other = malloc(i % 3000 + 1);
    if (block == NULL || other == NULL) fail("malloc");
    memset(block, 1, i % 900 + 1);
    block = near_realloc(block, i * 20 + 1);
    if (block == NULL || block[0] != 1) fail("realloc");
    char* taken = atomic_exchange(&passed_on, block);
    if (taken != NULL) {
      taken[0] = 2;
      near_free(taken);
    }
    free(other);
  }
  return calloc(1, 100);
}

static void run_threads(void) {
  for (int round = 0; round < kRounds; round++) {
    pthread_t threads[kThreads];
    for (int i = 0; i < kThreads; i++) {
      if (pthread_create(&threads[i], NULL, work, malloc(50)) != 0) fail("pthread_create");
    }
    for (int i = 0; i < kThreads; i++) {
      void* block = NULL;
      if (pthread_join(threads[i], &block) != 0) fail("pthread_join");
      free(block);
    }
  }
}

static void allocate_once(void) {
  near_free(near_malloc(100));
  free(malloc(100));
}

static void run_child(void (*work_of_child)(void)) {
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    work_of_child();
    _Exit(kChildStatus);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) fail("waitpid");
  if (WEXITSTATUS(status) != kChildStatus) fail("the child");
}

int main(int count, char** arguments) {
  run_child(run_threads);
  run_threads();
  run_child(allocate_once);
  run_threads();
  near_free(atomic_exchange(&passed_on, NULL));
  if (count > 1 && arguments[1][0] == 'f') near_free(malloc(100)); /* of the sanitizer's malloc */
  puts("ok");
  return 0;
}

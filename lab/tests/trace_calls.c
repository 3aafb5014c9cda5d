// A program whose calls are known, to compare its trace with.
//
// Each of THREADS threads allocates ROUNDS blocks of 48 bytes (malloc), ROUNDS of 2 x 100 (calloc),
// ROUNDS of 300 aligned to 64, grows the first kind to 96 (realloc), frees the second, and passes
// the third to the next thread, which frees it behind a barrier. The first thread allocates 100
// blocks of 5000 bytes before all this and frees them after it. ENDING: `return`, `_exit`, `kill`,
// `fork` (in another thread; the child allocates 7 blocks of 1000 bytes and frees them) or `exec`
// (another instance of it replaces it, and returns). Thread-safety: a program of its own, which
// lab/tests/test_trace.py compiles.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kMost = 10000, kOwn = 100 };
static int threads, rounds;
static pthread_barrier_t all;
static void* aligned[64][kMost];

static void* run(void* argument) {
  const int id = (int)(long)argument;
  static __thread void* plain[kMost];
  static __thread void* zeroed[kMost];
  for (int i = 0; i < rounds; ++i) {
    plain[i] = malloc(48);
    zeroed[i] = calloc(2, 100);
    if (posix_memalign(&aligned[id][i], 64, 300) != 0) abort();
  }
  for (int i = 0; i < rounds; ++i) plain[i] = realloc(plain[i], 96);
  pthread_barrier_wait(&all);
  for (int i = 0; i < rounds; ++i) free(zeroed[i]), free(aligned[(id + 1) % threads][i]);
  return NULL;
}

static void* fork_once(void* unused) {
  free(malloc(1));  // gives this thread a number
  if (fork() == 0) {
    for (int i = 0; i < 7; ++i) free(malloc(1000));
    exit(0);
  }
  wait(NULL);
  return unused;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  threads = atoi(argv[1]), rounds = atoi(argv[2]);
  pthread_barrier_init(&all, NULL, (unsigned)threads);
  void* own[kOwn];
  for (int i = 0; i < kOwn; ++i) own[i] = malloc(5000);
  pthread_t running[64];
  for (long i = 0; i < threads; ++i) pthread_create(&running[i], NULL, run, (void*)i);
  for (int i = 0; i < threads; ++i) pthread_join(running[i], NULL);
  for (int i = 0; i < kOwn; ++i) free(own[i]);
  if (strcmp(argv[3], "_exit") == 0) _exit(5);
  if (strcmp(argv[3], "kill") == 0) raise(SIGKILL);
  if (strcmp(argv[3], "exec") == 0) execl(argv[0], argv[0], argv[1], argv[2], "return", NULL);
  if (strcmp(argv[3], "fork") == 0) {
    pthread_create(&running[0], NULL, fork_once, NULL);
    pthread_join(running[0], NULL);
  }
  return 0;
}

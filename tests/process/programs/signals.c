/* Timers and threads that send signals while others allocate; handlers touch their own flag
 * only.
 * Invariant: interrupted allocations neither fail nor damage a block. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

#include "common.h"

enum { kThreads = 4 };
static atomic_int delivered;
static atomic_bool stop;
static pthread_t threads[kThreads];

static void handle(int number) {
  (void)number;
  const int saved = errno;
  atomic_fetch_add(&delivered, 1);
  errno = saved;
}

static void* allocate_until_stopped(void* seed) {
  for (uint64_t i = 0; !atomic_load(&stop); ++i) churn((uint64_t)(uintptr_t)seed + i, 200);
  return NULL;
}

static void* send_until_stopped(void* unused) {
  (void)unused;
  for (int i = 0; !atomic_load(&stop); ++i) {
    pthread_kill(threads[i % kThreads], SIGUSR1);
    nanosleep(&(struct timespec){0, 50000}, NULL);
  }
  return NULL;
}

int main(void) {
  struct sigaction action = {.sa_handler = handle};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGALRM, &action, NULL) == 0);
  CHECK(sigaction(SIGPROF, &action, NULL) == 0);
  struct itimerval often = {{0, 500}, {0, 500}};
  CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0 && setitimer(ITIMER_PROF, &often, NULL) == 0);
  for (uintptr_t i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], NULL, allocate_until_stopped, (void*)(i * 77)) == 0);
  }
  pthread_t sender;
  CHECK(pthread_create(&sender, NULL, send_until_stopped, NULL) == 0);
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do { /* two seconds, and on a busy machine until enough handlers have run */
    churn(9, 200);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - start.tv_sec < 3 ||
           (atomic_load(&delivered) <= 500 && now.tv_sec - start.tv_sec < 60));
  atomic_store(&stop, 1);
  pthread_join(sender, NULL);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  CHECK(atomic_load(&delivered) > 500);
  puts("interrupted often");
  return 0;
}

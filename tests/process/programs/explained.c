/* Holds memory of known kinds, explains it, and waits for input. tests/process/explain.py runs it.
 * Its argument is a number of threads that allocate and free until the end; with -1 only the main
 * thread does so, and it does not wait; with -2 a forked child does so, which has a timer.
 * Invariant: what it prints first is what near_explain wrote while only these threads ran. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "common.h"

#pragma weak near_explain
int near_explain(FILE* stream);

enum { kMany = 40000, kSmall = 104, kMiB = 1 << 20 };
static char* small[kMany];
static int zeros;

static void* exchange(void* none) {
  uint64_t state = (uint64_t)(uintptr_t)&state;
  for (;;) {
    size_t size = next_random(&state) % 5000 + 1;
    give_back(take(size), size);
  }
  return none;
}

/* 10 MiB in a large block; 40 MiB in one that is never written; 8 MiB that are only read, so that
 * the kernel shows its page of zeros; 3 MiB of mmap; small blocks of which each second is freed. */
static void hold(void) {
  memset(malloc(10 * kMiB + 1), 1, 10 * kMiB + 1);
  CHECK(malloc(40 * kMiB) != NULL);
  const char* zero = calloc(8, kMiB);
  for (int i = 0; i < 8 * kMiB; i += 4096) zeros += zero[i];
  void* mapped = mmap(NULL, 3 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mapped != MAP_FAILED);
  memset(mapped, 1, 3 * kMiB);
  for (int i = 0; i < kMany; i++) memset(small[i] = malloc(kSmall), 1, kSmall);
  for (int i = 0; i < kMany; i += 2) free(small[i]);
}

/* In a child, which dies by SIGALRM if its timer of an hour is set anew by others. */
static void fork_and_exchange(void) {
  fflush(stdout);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    struct sigevent alarm = {0};
    alarm.sigev_notify = SIGEV_SIGNAL;
    alarm.sigev_signo = SIGALRM;
    const struct itimerspec hour = {.it_value = {.tv_sec = 3600}};
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &alarm, &timer) == 0);
    CHECK(timer_settime(timer, 0, &hour, NULL) == 0);
    printf("child %d churns\n", getpid());
    fflush(stdout);
    exchange(NULL);
  }
}

int main(int count, char** arguments) {
  hold();
  pthread_t thread;
  for (int i = count > 1 ? atoi(arguments[1]) : 0; i > 0; i--) {
    CHECK(pthread_create(&thread, NULL, exchange, NULL) == 0);
  }
  CHECK(near_explain != NULL && near_explain(stdout) == 0);
  CHECK(near_explain(NULL) != 0);
  if (count > 1 && atoi(arguments[1]) == -1) {
    fflush(stdout);
    exchange(NULL);
  }
  if (count > 1 && atoi(arguments[1]) == -2) fork_and_exchange();
  return getchar() == EOF ? 0 : 1;
}

/* Calls of malloc in a program that replaces the functions of the C library: tests/process/
 * interposed.py generates functions of the same names, which end the program, and links them.
 * With OWN_NAMES it uses near_malloc. Only the functions that interposed.py leaves are called here.
 * Prints "ok". */
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#ifdef OWN_NAMES
#include <nearmalloc/nearmalloc.h>
#define NAMED(name) near_##name
#else
#include <malloc.h>
#define NAMED(name) name
#endif

enum { kThreads = 4, kRounds = 12, kSlots = 500, kChildStatus = 7 };

static void* shared[kThreads][kSlots]; /* blocks that the next round's threads free */

static void fail(void) {
  static const char kText[] = "a call failed\n";
  if (write(2, kText, sizeof kText - 1) >= 0) _exit(1);
  _exit(2);
}

/* Sizes of all kinds: small, medium, and seldom large. */
static size_t size_of(unsigned i) { return 1 + (i % 97 == 0 ? i * 900UL : i % 5000); }

static int work(void* argument) {
  void** slots = argument;
  for (unsigned i = 0; i < kSlots; i++) {
    NAMED(free)(slots[i]);
    char* block = NAMED(calloc)(1, size_of(i));
    void* aligned = NAMED(aligned_alloc)(256, 512);
    if (block == NULL || aligned == NULL || block[0] != 0) fail();
    block[0] = 1;
    block = NAMED(realloc)(block, size_of(i * 7));
    if (block == NULL || block[0] != 1) fail();
    NAMED(free)(aligned);
    slots[i] = block;
  }
  return 0;
}

/* In the next round another thread frees the blocks of each. */
static void run_round(int round) {
  thrd_t threads[kThreads];
  for (int i = 0; i < kThreads; i++) {
    if (thrd_create(&threads[i], work, shared[(i + round) % kThreads]) != thrd_success) fail();
  }
  for (int i = 0; i < kThreads; i++) thrd_join(threads[i], NULL);
}

static void run_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    run_round(0);
    _exit(kChildStatus);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != kChildStatus << 8) fail();
}

int main(void) {
  static const char kText[] = "ok\n";
  for (int round = 0; round < kRounds; round++) run_round(round);
  run_child();
  if (NAMED(malloc)((size_t)1 << 62) != NULL) fail();
  if (NAMED(mallinfo2)().uordblks == 0) fail();
  NAMED(malloc_trim)(0);
  return write(1, kText, sizeof kText - 1) == sizeof kText - 1 ? 0 : 3;
}

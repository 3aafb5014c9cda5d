/* Forks and execs while threads allocate: the child allocates, then execs this program, which
 * does too.
 * Invariant: every child ends with status 0 within its alarm. */
#include <stdatomic.h>
#include <sys/wait.h>

#include "common.h"

static atomic_bool stop;

static void* allocate_until_stopped(void* seed) {
  for (uint64_t i = 0; !atomic_load(&stop); ++i) churn((uint64_t)(uintptr_t)seed + i, 300);
  return NULL;
}

static void live_as_child(const char* self) {
  alarm(30);
  churn(1, 300);
  execl(self, self, "child", (char*)NULL);
  _exit(99);
}

int main(int argc, char** argv) {
  if (argc > 1) {
    churn(2, 300);
    _exit(0);
  }
  enum { kThreads = 4, kForks = 60 };
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], NULL, allocate_until_stopped, (void*)(i * 1000)) == 0);
  }
  int good = 0;
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) live_as_child(argv[0]);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("%d of %d children\n", good, kForks);
  return good == kForks ? 0 : 1;
}

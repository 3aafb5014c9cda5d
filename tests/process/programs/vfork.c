/* vfork and posix_spawn while threads allocate. The child of vfork only execs, as POSIX demands.
 * Invariant: the parent's heap is as it was after each child. */
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "common.h"

extern char** environ;
static atomic_bool stop;

static void* allocate_until_stopped(void* seed) {
  for (uint64_t i = 0; !atomic_load(&stop); ++i) churn((uint64_t)(uintptr_t)seed + i, 300);
  return NULL;
}

static int status_of(pid_t child) {
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

int main(void) {
  pthread_t threads[2];
  for (uintptr_t i = 0; i < 2; ++i) {
    CHECK(pthread_create(&threads[i], NULL, allocate_until_stopped, (void*)i) == 0);
  }
  int sum = 0;
  for (int i = 0; i < 40; ++i) {
    unsigned char* kept = take(5000);
    char code[32];
    snprintf(code, sizeof code, "exit %d", i % 7);
    char* arguments[] = {"sh", "-c", code, NULL};
    const pid_t child = vfork();
    if (child == 0) {
      execv("/bin/sh", arguments);
      _exit(99);
    }
    sum += status_of(child);
    pid_t spawned = 0;
    CHECK(posix_spawn(&spawned, "/bin/sh", NULL, NULL, arguments, environ) == 0);
    sum += status_of(spawned);
    sum += WEXITSTATUS(system(code));
    give_back(kept, 5000);
    churn((uint64_t)i, 100);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  printf("sum of exit codes: %d\n", sum);
  return 0;
}

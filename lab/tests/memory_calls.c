// Makes a known number of memory calls in a process, in a thread of it and in a child of it, while
// a timer's signals interrupt them: `memory_calls N`. Thread-safety: a program of its own, which
// the lab's tests compile.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kPage = 4096 };

static void ignore(int signal) { (void)signal; }

// Makes these calls `count` times: 2 mmap, 3 madvise, 1 mremap, 2 mprotect, 2 munmap.
static void* make_calls(void* count) {
  for (long i = 0; i < *(long*)count; ++i) {
    const int both = PROT_READ | PROT_WRITE;
    char* one = mmap(NULL, 4 * kPage, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char* const two = mmap(NULL, kPage, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (one == MAP_FAILED || two == MAP_FAILED) abort();
    for (int advice = 0; advice < 3; ++advice) madvise(one, kPage, MADV_DONTNEED);
    one = mremap(one, 4 * kPage, 2 * kPage, 0);
    if (one == MAP_FAILED) abort();
    mprotect(one, kPage, PROT_READ);
    mprotect(two, kPage, PROT_NONE);
    munmap(one, 2 * kPage);
    munmap(two, kPage);
  }
  return NULL;
}

int main(int argc, char** argv) {
  long count = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
  // A call that the kernel restarts after a signal must not be counted again.
  sigaction(SIGALRM, &(struct sigaction){.sa_handler = ignore, .sa_flags = SA_RESTART}, NULL);
  setitimer(ITIMER_REAL, &(struct itimerval){{0, 200}, {0, 200}}, NULL);
  make_calls(&count);
  setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
  pthread_t thread;
  if (pthread_create(&thread, NULL, make_calls, &count) != 0) return 1;
  pthread_join(thread, NULL);
  const pid_t child = fork();
  if (child == 0) {
    make_calls(&count);
    _exit(0);
  }
  int status = 1;
  return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

/* Forks from places where they are hard. argv[1] names the case, the functions below.
 * Invariant: every child ends by itself, with status 0; prints "ok". A hang ends by an alarm. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tasks.h"

enum { kPatience = 30 };

static const char* self;

/* Waits for a child that has an alarm, and demands that it ended well. */
static void expect_good(pid_t child) {
  int status = 1;
  pid_t ended;
  do {
    ended = waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  if (ended != child || status != 0) {
    dprintf(2, "a child ended with status %#x\n", (unsigned)status);
    abort();
  }
}

static pthread_t start_worker(void* (*routine)(void*), void* argument) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, routine, argument) == 0);
  return thread;
}

static void* do_nothing(void* unused) { return unused; }

/* The child is single-threaded, and stays it; it may have threads, which come and go. */
static void live_alone(void) {
  alarm(kPatience);
  churn(1, 300);
  CHECK(thread_count() == 1);
  sleep_ms(20);
  CHECK(thread_count() == 1);
  CHECK(pthread_join(start_worker(do_nothing, NULL), NULL) == 0);
  CHECK(settled_thread_count(1) == 1);
  _exit(0);
}

static void* fork_without_a_heap(void* unused) {
  const pid_t child = fork();
  if (child == 0) live_alone();
  expect_good(child);
  return unused;
}

static int from_a_thread_that_never_allocated(void) {
  churn(1, 300);
  CHECK(pthread_join(start_worker(fork_without_a_heap, NULL), NULL) == 0);
  return puts("ok");
}

static int before_the_first_allocation(void) {
  fork_without_a_heap(NULL);
  return puts("ok");
}

static void* fork_and_end_the_thread(void* unused) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kPatience);
    free(take(100));
    pthread_exit(NULL);
  }
  expect_good(child);
  return unused;
}

/* The child's only thread ends, not its main function. */
static int then_the_thread_ends(void) {
  fork_and_end_the_thread(NULL);
  churn(1, 300);
  fork_and_end_the_thread(NULL);
  CHECK(pthread_join(start_worker(fork_and_end_the_thread, NULL), NULL) == 0);
  return puts("ok");
}

/* --- against stdio --- */

static atomic_bool stop;
static char line_path[] = "/tmp/near_forks_XXXXXX";

static void* read_lines(void* unused) {
  while (!atomic_load(&stop)) {
    FILE* file = fopen(line_path, "r");
    CHECK(file != NULL);
    char* line = NULL;
    size_t room = 0;
    CHECK(getline(&line, &room, file) > 0);
    free(line);
    fclose(file);
  }
  return unused;
}

static void* flush_all(void* unused) {
  while (!atomic_load(&stop)) fflush(NULL);
  return unused;
}

/* Readers allocate with a stream's lock, which flushing waits for with the lock of all streams. */
static int against_stdio(void) {
  const int file = mkstemp(line_path);
  CHECK(file >= 0);
  FILE* stream = fdopen(file, "w");
  for (int i = 0; i < 50000; ++i) fputc('x', stream);
  CHECK(fclose(stream) == 0);
  const pthread_t threads[] = {start_worker(read_lines, NULL), start_worker(read_lines, NULL),
                               start_worker(flush_all, NULL)};
  for (int i = 0; i < 60; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(kPatience);
      fflush(NULL);
      free(take(1000));
      _exit(0);
    }
    expect_good(child);
  }
  atomic_store(&stop, true);
  for (int i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  unlink(line_path);
  return puts("ok");
}

/* --- in handlers of signals --- */

enum { kGoesOn = INT32_MAX / 2 }; /* more forks than any test makes */
static volatile sig_atomic_t forks;
static void (*volatile in_child)(void);

static void fork_in_handler(int number) {
  (void)number;
  const int saved = errno;
  const pid_t child = fork();
  if (child == 0) {
    alarm(kPatience);
    in_child();
    errno = saved;
    return; /* what was interrupted goes on in the child, too */
  }
  if (child > 0) expect_good(child);
  forks++;
  errno = saved;
}

static void exit_at_once(void) { _exit(0); }

static void execute(void) {
  execl(self, self, "nothing", (char*)NULL);
  _exit(99);
}

/* POSIX does not allow it, but programs do: it may fail, and must not hang or overlap. */
static void use_memory(void) {
  unsigned char* blocks[40];
  for (size_t i = 0; i < 40; ++i) {
    const size_t size = i * i * 20;
    blocks[i] = i % 3 == 0 ? calloc(1, size) : malloc(size);
    if (blocks[i] != NULL) memset(blocks[i], (int)i, size);
  }
  blocks[5] = realloc(blocks[5], 70000);
  for (size_t i = 0; i < 40; ++i) {
    const size_t size = i == 5 ? 500 : i * i * 20;
    for (size_t at = 0; blocks[i] != NULL && at < size; at += 16) {
      if (blocks[i][at] != i) _exit(3);
    }
    free(blocks[i]);
  }
  void* aligned = NULL;
  if (posix_memalign(&aligned, 4096, 100000) == 0 && (uintptr_t)aligned % 4096 != 0) _exit(4);
  free(aligned);
}

static void use_memory_and_exit(void) {
  use_memory();
  _exit(0);
}

static void fork_again(void) {
  const pid_t child = fork();
  if (child == 0) use_memory_and_exit();
  int status = 1;
  if (waitpid(child, &status, 0) != child || status != 0) _exit(5);
  execute();
}

static void go_on(void) { forks = kGoesOn; }

/* Uses memory until so many children were forked; so do the children that go on. */
static void fork_while(void (*use)(uint64_t seed), void (*child)(void), int wanted) {
  in_child = child;
  forks = 0;
  const struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGVTALRM, &action, NULL) == 0);
  struct itimerval often = {{0, 300}, {0, 300}};
  CHECK(setitimer(ITIMER_VIRTUAL, &often, NULL) == 0);
  while (forks < wanted) use((uint64_t)forks);
  const struct itimerval never = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_VIRTUAL, &never, NULL) == 0);
}

static void churn_a_little(uint64_t seed) { churn(seed, 50); }

static void fork_in_handlers(void (*child)(void), int wanted) {
  fork_while(churn_a_little, child, wanted);
  churn(2, 300);
  if (forks >= kGoesOn) _exit(0);
}

static int in_a_handler(void) {
  alarm(4 * kPatience);
  fork_in_handlers(exit_at_once, 40);
  fork_in_handlers(execute, 15);
  fork_in_handlers(use_memory_and_exit, 40);
  fork_in_handlers(fork_again, 10);
  fork_in_handlers(go_on, 15);
  return puts("ok");
}

/* What is interrupted here is nearly always a slow path. */
static void use_slow_paths(uint64_t seed) {
  static void* blocks[64];
  for (int i = 0; i < 1000; ++i) {
    void** slot = &blocks[next_random(&seed) % 64];
    free(*slot);
    *slot = malloc(4000 + next_random(&seed) % 60000);
    CHECK(*slot != NULL);
  }
}

static void* churn_much(void* seed) {
  for (uint64_t i = 0; i < 100; ++i) churn((uint64_t)(uintptr_t)seed + i, 300);
  return NULL;
}

/* The child of a process of one thread may have threads when its handler has returned. */
static int in_a_handler_before_threads(void) {
  enum { kThreads = 4 };
  alarm(4 * kPatience);
  fork_while(use_slow_paths, go_on, 100);
  if (forks < kGoesOn) return puts("ok");
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) {
    threads[i] = start_worker(churn_much, (void*)(i * 1000));
  }
  for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  _exit(0);
}

static void* churn_until_stopped(void* seed) {
  sigset_t all; /* handlers run in the main thread */
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  for (uint64_t i = 0; !atomic_load(&stop); ++i) churn((uint64_t)(uintptr_t)seed + i, 100);
  return NULL;
}

/* Beside threads that hold and want locks. */
static int in_a_handler_among_threads(void) {
  alarm(4 * kPatience);
  const pthread_t threads[] = {start_worker(churn_until_stopped, (void*)100),
                               start_worker(churn_until_stopped, (void*)200)};
  fork_in_handlers(exit_at_once, 15);
  fork_in_handlers(use_memory_and_exit, 15);
  fork_in_handlers(fork_again, 8);
  atomic_store(&stop, true);
  for (int i = 0; i < 2; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  return puts("ok");
}

static void report_crash(int number) {
  signal(number, SIG_DFL);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kPatience);
    execute();
  }
  int status = 1;
  if (waitpid(child, &status, 0) != child || status != 0) _exit(7);
  static const char kText[] = "ok\n";
  _exit(write(1, kText, sizeof kText - 1) == sizeof kText - 1 ? 0 : 8);
}

/* Writes to freed blocks, until the allocator finds the damage; a child reports its crash. */
static int after_corruption(void) {
  enum { kBlocks = 4096, kSize = 3000 };
  static char* blocks[kBlocks];
  alarm(kPatience);
  signal(SIGSEGV, report_crash);
  signal(SIGABRT, report_crash);
  for (int i = 0; i < kBlocks; ++i) blocks[i] = (char*)take(kSize);
  for (int i = 0; i < kBlocks; i += 2) free(blocks[i]);
  for (int i = 0; i < kBlocks; i += 2) memset(blocks[i], 0x41, 16);
  for (int i = 1; i < kBlocks; i += 2) free(blocks[i]);
  for (int i = 0; i < 2 * kBlocks; ++i) {
    char* volatile block = (char*)malloc(kSize);
    *block = 1;
  }
  return puts("ok"); /* no damage was found */
}

static int nothing(void) { return 0; }

static int nested(void) {
  const pthread_t thread = start_worker(churn_until_stopped, (void*)300);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(kPatience);
      churn(1, 100);
      const pid_t grandchild = fork();
      if (grandchild == 0) live_alone();
      expect_good(grandchild);
      _exit(0);
    }
    expect_good(child);
  }
  atomic_store(&stop, true);
  CHECK(pthread_join(thread, NULL) == 0);
  return puts("ok");
}

static const struct {
  const char* name;
  int (*run)(void);
} kCases[] = {
    {"from_a_thread_that_never_allocated", from_a_thread_that_never_allocated},
    {"before_the_first_allocation", before_the_first_allocation},
    {"then_the_thread_ends", then_the_thread_ends},
    {"against_stdio", against_stdio},
    {"in_a_handler", in_a_handler},
    {"in_a_handler_before_threads", in_a_handler_before_threads},
    {"in_a_handler_among_threads", in_a_handler_among_threads},
    {"after_corruption", after_corruption},
    {"nested", nested},
    {"nothing", nothing},
};

int main(int argc, char** argv) {
  self = argv[0];
  for (size_t i = 0; argc == 2 && i < sizeof kCases / sizeof *kCases; ++i) {
    if (strcmp(kCases[i].name, argv[1]) == 0) return kCases[i].run() < 0;
  }
  return 2;
}

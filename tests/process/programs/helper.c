/* The allocator's own thread: when there is one, and what it is like. argv[1] names the case, the
 * functions below.
 * Invariant: prints "ok", or why the machine refuses the case ("skipped: ..."). */
#include <dlfcn.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <threads.h>

#include "tasks.h"

enum { kWorkers = 6 };

static pthread_barrier_t gate;

static int skip(const char* why) {
  printf("skipped: %s\n", why);
  return 0;
}

static void use_memory(void) { churn(7, 300); }

static void* work(void* unused) {
  (void)unused;
  use_memory();
  return NULL;
}

/* Works, and stays until the gate opens a second time. */
static void* work_and_stay(void* unused) {
  use_memory();
  pthread_barrier_wait(&gate);
  pthread_barrier_wait(&gate);
  return unused;
}

static pthread_t start_worker(void* (*routine)(void*)) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, routine, NULL) == 0);
  return thread;
}

/* A worker that has allocated. */
static pthread_t start_resident(void) {
  pthread_barrier_init(&gate, NULL, 2);
  const pthread_t thread = start_worker(work_and_stay);
  pthread_barrier_wait(&gate);
  return thread;
}

static void end_resident(pthread_t thread) {
  pthread_barrier_wait(&gate);
  CHECK(pthread_join(thread, NULL) == 0);
}

static int wait_for_helper(void) {
  for (int i = 0; i < 2000 && find_helper() == 0; ++i) sleep_ms(10);
  return find_helper();
}

/* It exists while there are two threads, and not longer; also if one never allocates. */
static int comes_and_goes(void) {
  use_memory();
  CHECK(find_helper() == 0);
  const pthread_t resident = start_resident();
  CHECK(wait_for_helper() != 0);
  CHECK(thread_count() == 3);
  end_resident(resident);
  CHECK(settled_thread_count(1) == 1);
  pthread_t threads[kWorkers];
  for (int i = 0; i < kWorkers; ++i) threads[i] = start_worker(work);
  for (int i = 0; i < kWorkers; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(settled_thread_count(1) == 1);
  if (unshare(CLONE_NEWUSER) != 0 && errno == EINVAL) return puts("two threads for the kernel");
  return puts("ok");
}

/* Starts a child in a user namespace of its own; -1 if the machine refuses one. The child ends when
 * this process has closed the writing end of the pipe `hold`. */
static pid_t start_in_namespace(const int hold[2]) {
  int told[2];
  CHECK(pipe(told) == 0);
  const pid_t child = fork();
  if (child == 0) {
    char result = unshare(CLONE_NEWUSER) == 0;
    close(hold[1]);
    (void)!write(told[1], &result, 1);
    (void)!read(hold[0], &result, 1);
    _exit(0);
  }
  char is_there = 0;
  CHECK(child > 0 && read(told[0], &is_there, 1) == 1);
  return is_there ? child : -1;
}

/* When the last other thread has ended, the process may enter another user namespace: the kernel
 * refuses that to a process with threads. */
static int enters_a_namespace(void) {
  end_resident(start_resident());
  CHECK(settled_thread_count(1) == 1);
  int hold[2];
  CHECK(pipe(hold) == 0);
  const pid_t child = start_in_namespace(hold);
  if (child < 0) return skip("no user namespaces");
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/ns/user", (int)child);
  const int user_namespace = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(user_namespace >= 0);
  const bool entered = setns(user_namespace, CLONE_NEWUSER) == 0;
  if (!entered && errno == EPERM) return skip("this user may not enter a namespace");
  CHECK(entered);
  use_memory();
  return puts("ok");
}

static int work_c11(void* unused) {
  work_and_stay(unused);
  return 11;
}

static int threads_of_c11(void) {
  pthread_barrier_init(&gate, NULL, 2);
  thrd_t thread;
  CHECK(thrd_create(&thread, work_c11, NULL) == thrd_success);
  pthread_barrier_wait(&gate);
  CHECK(wait_for_helper() != 0);
  pthread_barrier_wait(&gate);
  int result = 0;
  CHECK(thrd_join(thread, &result) == thrd_success && result == 11);
  CHECK(settled_thread_count(1) == 1);
  return puts("ok");
}

static void* end_by_exit(void* unused) { pthread_exit(unused); }

static void* wait_to_be_cancelled(void* unused) {
  while (true) pause();
  return unused;
}

/* Each way to end is counted. */
static int every_end_counts(void) {
  for (int i = 0; i < 20; ++i) {
    CHECK(pthread_join(start_worker(end_by_exit), NULL) == 0);
    const pthread_t cancelled = start_worker(wait_to_be_cancelled);
    CHECK(pthread_cancel(cancelled) == 0 && pthread_join(cancelled, NULL) == 0);
  }
  CHECK(settled_thread_count(1) == 1);
  return puts("ok");
}

static cpu_set_t cpus_of(int task) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CHECK(sched_getaffinity(task, sizeof cpus, &cpus) == 0);
  return cpus;
}

static bool pinned;
static bool urgent;

/* A thread with a CPU and a priority of its own, which allocates, and creates another thread. */
static void* live_differently(void* unused) {
  cpu_set_t all = cpus_of(0);
  cpu_set_t last;
  CPU_ZERO(&last);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_ZERO(&last);
    CPU_SET(cpu, &last);
  }
  pinned = CPU_COUNT(&all) > 1 && sched_setaffinity(0, sizeof last, &last) == 0;
  const struct sched_param priority = {.sched_priority = 5};
  urgent = pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) == 0;
  use_memory();
  pthread_barrier_wait(&gate);
  pthread_barrier_wait(&gate);
  return unused;
}

/* A busy machine may let a new thread wait for so long. */
enum { kLagMs = 5000 };

static bool has_good_manners(int helper) {
  const cpu_set_t own = cpus_of(helper);
  const cpu_set_t of_process = cpus_of(getpid());
  /* All but what cannot be blocked (SIGKILL, SIGSTOP) and what glibc keeps for itself. */
  const uint64_t free_signals = 1u << (SIGKILL - 1) | 1u << (SIGSTOP - 1) | 3ull << 31;
  return sched_getscheduler(helper) == SCHED_OTHER && CPU_EQUAL(&own, &of_process) &&
         (status_number(helper, "\nSigBlk:", 16) | free_signals) == UINT64_MAX;
}

static uint64_t permitted(int task) { return status_number(task, "\nCapPrm:", 16); }

static bool is_capable(int task) {
  return (status_number(task, "\nCapEff:", 16) | permitted(task)) != 0;
}

static void* stay(void* unused) {
  pthread_barrier_wait(&gate);
  pthread_barrier_wait(&gate);
  return unused;
}

/* The helper has what setuid needs while the process does, and gives it up while it waits. */
static int gives_up_capabilities(void) {
  pthread_barrier_init(&gate, NULL, 2);
  const pthread_t thread = start_worker(stay);
  pthread_barrier_wait(&gate);
  const int helper = wait_for_helper();
  CHECK(helper != 0);
  const uint64_t needed_for_setuid = 1u << 7 | 1u << 6;
  for (int i = 0; i < kLagMs / 10 && (permitted(helper) & ~needed_for_setuid) != 0; ++i) {
    sleep_ms(10);
  }
  CHECK((permitted(helper) & ~needed_for_setuid) == 0);
  sleep_ms(1000); /* nothing is left to do */
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0, 0, 0}};
  CHECK(syscall(SYS_capset, &header, none) == 0);
  for (int i = 0; i < kLagMs / 10 && is_capable(helper); ++i) sleep_ms(10);
  CHECK(!is_capable(helper));
  end_resident(thread);
  return puts("ok");
}

static void* create_another(void* routine) {
  live_differently(NULL);
  return routine;
}

static int has_manners(void) {
  use_memory();
  pthread_barrier_init(&gate, NULL, 2);
  const pthread_t thread = start_worker(create_another);
  pthread_barrier_wait(&gate);
  const int helper = wait_for_helper();
  CHECK(helper != 0);
  for (int i = 0; i < kLagMs / 10 && !has_good_manners(helper); ++i) sleep_ms(10);
  CHECK(has_good_manners(helper));
  end_resident(thread);
  return puts("ok");
}

/* setuid changes every thread, and the C library aborts if one of them may not. */
static int user_changes(void) {
  if (geteuid() != 0) return skip("not root");
  const pthread_t resident = start_resident();
  const int helper = wait_for_helper();
  CHECK(helper != 0);
  sleep_ms(50);
  CHECK(setgid(65534) == 0 && setuid(65534) == 0);
  CHECK(status_number(helper, "\nCapEff:", 16) == 0);
  CHECK(status_number(helper, "\nCapPrm:", 16) == 0);
  end_resident(resident);
  return puts("ok");
}

static int deep(int frames) {
  volatile char frame[1024];
  memset((void*)frame, frames, sizeof frame);
  return frames == 0 ? frame[0] : deep(frames - 1) + frame[1];
}

static void use_stack(void) {
  deep(1000);
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, NULL, &blocked);
  puts(sigismember(&blocked, SIGTERM) ? "on the helper" : "ok");
}

static void* outlive_main(void* unused) {
  use_memory();
  pthread_barrier_wait(&gate);
  sleep_ms(300);
  return unused;
}

/* Handlers of atexit run on a thread of the program, whose stack it chose. */
static int main_leaves_first(void) {
  atexit(use_stack);
  use_memory();
  pthread_barrier_init(&gate, NULL, 2);
  pthread_detach(start_worker(outlive_main));
  pthread_barrier_wait(&gate);
  pthread_exit(NULL);
}

static void forbid_threads(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    skip("no seccomp");
    fflush(stdout);
    _exit(0);
  }
}

static void* work_in_sandbox(void* unused) {
  forbid_threads();
  use_memory();
  return unused;
}

/* Asking for a thread would kill the process. */
static int sandbox(void) {
  CHECK(pthread_join(start_worker(work_in_sandbox), NULL) == 0);
  return puts("ok");
}

typedef int (*SetOption)(const char* name, long value);

static SetOption find_set_option(void) {
  SetOption set_option = NULL;
  *(void**)&set_option = dlsym(RTLD_DEFAULT, "near_set_option");
  return set_option;
}

static int is_switched_off(void) {
  const SetOption set_option = find_set_option();
  if (set_option == NULL) return puts("ok"); /* another allocator */
  const pthread_t resident = start_resident();
  CHECK(wait_for_helper() != 0);
  CHECK(set_option("purge_thread", 0) == 0);
  CHECK(settled_thread_count(2) == 2);
  end_resident(resident);
  CHECK(settled_thread_count(1) == 1);
  const pthread_t without = start_resident();
  CHECK(thread_count() == 2);
  forbid_threads(); /* the helper's work is done by the calls below */
  malloc_trim(0);
  end_resident(without);
  return puts("ok");
}

static int is_switched_on(void) {
  const SetOption set_option = find_set_option();
  if (set_option == NULL) return puts("ok");
  CHECK(set_option("purge_thread", 0) == 0);
  const pthread_t resident = start_resident();
  CHECK(thread_count() == 2);
  CHECK(set_option("purge_thread", 1) == 0);
  CHECK(wait_for_helper() != 0);
  end_resident(resident);
  CHECK(settled_thread_count(1) == 1);
  return puts("ok");
}

/* The program gets all threads that its limit allows. */
static int takes_no_place(void) {
  if (geteuid() != 0) return skip("not root");
  const uid_t lonely = 54321; /* no other processes count */
  CHECK(setuid(lonely) == 0);
  const struct rlimit three = {3, 3};
  CHECK(setrlimit(RLIMIT_NPROC, &three) == 0);
  const pthread_t first = start_resident();
  CHECK(wait_for_helper() != 0);
  pthread_t second;
  CHECK(pthread_create(&second, NULL, work, NULL) == 0);
  CHECK(pthread_join(second, NULL) == 0);
  end_resident(first);
  return puts("ok");
}

/* Stopping and starting while threads come, go and fork; no order of them is lost or hangs. */
static void* come_and_go(void* seed) {
  for (int i = 0; i < 40; ++i) {
    churn((uint64_t)(uintptr_t)seed + (uint64_t)i, 20);
    CHECK(pthread_join(start_worker(work), NULL) == 0);
    if (i % 8 != 0) continue;
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(20);
      CHECK(thread_count() == 1);
      CHECK(pthread_join(start_worker(work), NULL) == 0);
      CHECK(settled_thread_count(1) == 1);
      _exit(0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  return NULL;
}

static int all_at_once(void) {
  const SetOption set_option = find_set_option();
  pthread_t threads[3];
  for (uintptr_t i = 0; i < 3; ++i) {
    CHECK(pthread_create(&threads[i], NULL, come_and_go, (void*)(i * 100)) == 0);
  }
  for (int i = 0; set_option != NULL && i < 100; ++i) CHECK(set_option("purge_thread", i % 2) == 0);
  for (int i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(settled_thread_count(1) == 1);
  return puts("ok");
}

static const struct {
  const char* name;
  int (*run)(void);
} kCases[] = {
    {"comes_and_goes", comes_and_goes},
    {"enters_a_namespace", enters_a_namespace},
    {"threads_of_c11", threads_of_c11},
    {"every_end_counts", every_end_counts},
    {"has_manners", has_manners},
    {"gives_up_capabilities", gives_up_capabilities},
    {"user_changes", user_changes},
    {"main_leaves_first", main_leaves_first},
    {"sandbox", sandbox},
    {"is_switched_off", is_switched_off},
    {"is_switched_on", is_switched_on},
    {"takes_no_place", takes_no_place},
    {"all_at_once", all_at_once},
};

int main(int argc, char** argv) {
  for (size_t i = 0; argc == 2 && i < sizeof kCases / sizeof *kCases; ++i) {
    if (strcmp(kCases[i].name, argv[1]) == 0) return kCases[i].run() < 0;
  }
  return 2;
}

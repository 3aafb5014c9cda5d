// Starts one program, samples its memory, and reports its times and memory: the lab's stop-watch.
//
// It is not in Python: on Linux a child's ru_maxrss starts at the resident set of the process that
// called exec, so a child of a large parent never looks small. This launcher is small, and reads
// VmHWM and VmPTE at the last moment they exist: the child is traced (PTRACE_O_TRACEEXIT, nothing
// else) and stops when it exits, and briefly when it gets a signal. If tracing is refused, the
// report has only the samples and ru_maxrss.
// The launcher, at low priority, samples /proc while the program runs: at short intervals at first,
// later at a fiftieth of the elapsed time. The mean resident set is a mean over time, not over
// samples. The report includes the launcher's own CPU time.
// Invariant: every descendant of the program has ended when the launcher returns (it is their
// subreaper). The report goes to the descriptor of --report, one fact a line: pid, process,
// program, object, waited, left, calls (with --count-calls), usage. Source: ptrace(2), proc(5),
// getrusage(2).
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "calls.h"
#include "watch.h"

static const double kShortestInterval = 0.004;
static const double kLongestInterval = 0.05;
static const double kPart = 0.02;  // interval between two samples as a part of the elapsed time
enum { kNice = 5, kCallsInARow = 1000 };

struct run {
  FILE* report;
  bool tree;
  pid_t pid;
  double deadline;  // 0: none
  double started;
  double paused;  // time for reading /proc while the program was stopped at its exit
  int samples;
  double sampled_from, sampled_to;  // when the first and the last sample were taken
  long last_rss;
  double rss_seconds;  // the integral of the resident set between these two, in KiB s
  struct memory peak;
  bool timed_out;
  bool counts_calls;
  struct calls calls;
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void fail(const char* what) {
  fprintf(stderr, "launch: %s: %s\n", what, strerror(errno));
  exit(125);
}

static long larger(long a, long b) { return a > b ? a : b; }

// Assumes that the resident set changes linearly between two samples.
static void add_to_mean(struct run* run, long rss) {
  const double at = now();
  if (run->samples++ == 0) {
    run->sampled_from = at;
  } else {
    run->rss_seconds += (double)(run->last_rss + rss) / 2 * (at - run->sampled_to);
  }
  run->sampled_to = at;
  run->last_rss = rss;
}

static double mean_rss(const struct run* run) {
  const double seconds = run->sampled_to - run->sampled_from;
  return seconds > 0 ? run->rss_seconds / seconds : (double)run->last_rss;
}

static void sample(struct run* run) {
  const struct memory memory = run->tree ? memory_of_tree(run->pid) : memory_of(run->pid);
  if (memory.rss == 0) return;
  add_to_mean(run, memory.rss);
  // A tree's peak is the largest sum at one time; a single process has a high-water mark.
  run->peak.hwm = larger(run->peak.hwm, run->tree ? memory.rss : memory.hwm);
  run->peak.pte = larger(run->peak.pte, memory.pte);
}

// The process is stopped in exit, the last moment to read its memory and link map.
static void record_exit(struct run* run, pid_t pid) {
  const double before = now();
  const struct memory memory = memory_of(pid);
  fprintf(run->report, "process %d %ld %ld %ld\n", pid, memory.hwm, memory.rss, memory.pte);
  print_objects(pid, run->report);
  run->peak.hwm = larger(run->peak.hwm, memory.hwm);
  run->peak.pte = larger(run->peak.pte, memory.pte);
  if (pid != run->pid) return;
  print_waiting(pid, run->report);
  sample(run);
  run->paused += now() - before;
}

static void handle_stop(struct run* run, pid_t pid, int status) {
  const int event = status >> 16;
  const int signal = WSTOPSIG(status);
  if (event == PTRACE_EVENT_EXIT) record_exit(run, pid);
  if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
    ptrace(PTRACE_LISTEN, pid, 0, 0);  // job control stopped it: it stays stopped until SIGCONT
  } else {
    ptrace(PTRACE_CONT, pid, 0, event == 0 ? signal : 0);
  }
}

static void report_usage(const struct run* run, double wall, int status,
                         const struct rusage* usage) {
  struct rusage own;
  getrusage(RUSAGE_SELF, &own);
  const struct timeval user = own.ru_utime, system = own.ru_stime;
  const double own_cpu =
      (double)(user.tv_sec + system.tv_sec) + (double)(user.tv_usec + system.tv_usec) * 1e-6;
  fprintf(run->report,
          "usage %.9f %ld.%06ld %ld.%06ld %ld %ld %ld %ld %ld %ld %ld %.0f %d %d %d %d %.6f\n",
          wall, (long)usage->ru_utime.tv_sec, (long)usage->ru_utime.tv_usec,
          (long)usage->ru_stime.tv_sec, (long)usage->ru_stime.tv_usec, usage->ru_maxrss,
          usage->ru_minflt, usage->ru_majflt, usage->ru_nvcsw, usage->ru_nivcsw, run->peak.hwm,
          run->peak.pte, mean_rss(run), run->samples, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          WIFSIGNALED(status) ? WTERMSIG(status) : 0, run->timed_out, own_cpu);
}

// Reaps every process that has ended; true when the program itself has ended.
static bool reap(struct run* run, int* status_of_program, struct rusage* usage_of_program) {
  int status;
  struct rusage usage;
  for (pid_t pid; (pid = wait4(-1, &status, WNOHANG | __WALL, &usage)) > 0;) {
    if (WIFSTOPPED(status)) {
      handle_stop(run, pid, status);
    } else if (pid == run->pid) {
      *status_of_program = status;
      *usage_of_program = usage;
      return true;
    }
  }
  return false;
}

// Ends the processes that the program left, even daemons: the launcher is their subreaper.
static void end_leftovers(struct run* run) {
  char name[64], text[4096];
  const pid_t self = getpid();
  snprintf(name, sizeof name, "task/%d/children", self);
  int left = 0;
  for (int round = 0; round < 1000 && read_proc(self, name, text, sizeof text) > 0; ++round) {
    char* rest = text;
    for (long pid; (pid = strtol(rest, &rest, 10)) > 0;) {
      left += round == 0;
      kill((pid_t)pid, SIGKILL);
    }
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0;) {
      if (WIFSTOPPED(status)) ptrace(PTRACE_CONT, pid, 0, 0);
    }
    usleep(1000);
  }
  fprintf(run->report, "left %d\n", left);
}

// Waits `seconds`, or until an event, and handles it. Passes on signals meant for the program.
static void wait_for_event(struct run* run, int signals, double seconds) {
  struct pollfd events[] = {{.fd = signals, .events = POLLIN},
                            {.fd = run->calls.listener, .events = POLLIN}};
  const long ns = seconds > 0 ? (long)(seconds * 1e9) : 0;
  if (ppoll(events, 2, &(struct timespec){0, ns}, NULL) <= 0) return;
  struct signalfd_siginfo signal;
  if ((events[0].revents & POLLIN) != 0 && read(signals, &signal, sizeof signal) == sizeof signal &&
      signal.ssi_signo != SIGCHLD)
    kill(run->pid, (int)signal.ssi_signo);
  for (int i = 0; i < kCallsInARow && count_waiting(&run->calls); ++i) continue;
  if ((events[1].revents & POLLHUP) != 0) run->calls.listener = -1;  // all counted processes ended
}

static void watch(struct run* run, int signals) {
  int status;
  struct rusage usage;
  double next_sample = 0;
  while (!reap(run, &status, &usage)) {
    const double at = now();
    if (at >= next_sample) {
      sample(run);
      const double part = (at - run->started) * kPart;
      const double longest = part < kLongestInterval ? part : kLongestInterval;
      next_sample = at + (longest > kShortestInterval ? longest : kShortestInterval);
    }
    if (run->deadline != 0 && at > run->deadline && !run->timed_out) {
      run->timed_out = true;
      kill(run->pid, SIGKILL);
    }
    wait_for_event(run, signals, next_sample - now());
  }
  const double wall = now() - run->started - run->paused;
  end_leftovers(run);
  if (run->counts_calls) print_calls(&run->calls, run->report);
  report_usage(run, wall, status, &usage);
}

// Called by the child: waits until the launcher watches it, then executes the program. Never
// returns.
static void become_program(char** argv, const char* preload, const sigset_t* mask, int go,
                           int failed, int listener) {
  char byte;
  if (read(go, &byte, 1) != 1) _exit(125);
  prctl(PR_SET_PDEATHSIG,
        SIGKILL);  // where tracing is refused, this ends the program with the launcher
  if (preload != NULL) setenv("LD_PRELOAD", preload, 1);
  sigprocmask(SIG_SETMASK, mask, NULL);
  if (listener >= 0) hand_over_listener(listener);
  execvp(argv[0], argv);
  const int reason = errno;
  if (write(failed, &reason, sizeof reason) < 0) _exit(126);
  _exit(127);
}

static void launch(struct run* run, char** argv, const char* preload, double timeout) {
  sigset_t awaited, before;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGCHLD);
  sigaddset(&awaited, SIGTERM);
  sigaddset(&awaited, SIGINT);
  sigprocmask(SIG_BLOCK, &awaited, &before);
  prctl(PR_SET_CHILD_SUBREAPER, 1);

  const int signals = signalfd(-1, &awaited, SFD_CLOEXEC);
  if (signals < 0) fail("signalfd");

  int go[2], failed[2], listener[2] = {-1, -1};
  if (pipe2(go, O_CLOEXEC) != 0 || pipe2(failed, O_CLOEXEC) != 0) fail("pipe");
  if (run->counts_calls && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, listener) != 0)
    fail("socketpair");
  run->pid = fork();
  if (run->pid < 0) fail("fork");
  if (run->pid == 0) become_program(argv, preload, &before, go[0], failed[1], listener[1]);
  setpriority(PRIO_PROCESS, 0, kNice);
  close(failed[1]);
  if (listener[1] >= 0) close(listener[1]);

  long options = PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL;
  if (run->tree) options |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
  ptrace(PTRACE_SEIZE, run->pid, 0, options);  // some containers refuse: only samples then
  fprintf(run->report, "pid %d\n", run->pid);
  fflush(run->report);
  run->started = now();
  if (timeout > 0) run->deadline = run->started + timeout;
  if (write(go[1], "g", 1) != 1) fail("start");
  if (run->counts_calls) receive_listener(&run->calls, listener[0]);
  int reason;
  if (read(failed[0], &reason, sizeof reason) == sizeof reason)
    fprintf(run->report, "error %s\n", strerror(reason));
  watch(run, signals);
}

int main(int argc, char** argv) {
  struct run run = {.calls = {.listener = -1}};
  const char* preload = NULL;
  double timeout = 0;
  int at = 1;
  for (; at < argc && strcmp(argv[at], "--") != 0; ++at) {
    const bool more = at + 1 < argc;
    if (strcmp(argv[at], "--tree") == 0) {
      run.tree = true;
    } else if (strcmp(argv[at], "--count-calls") == 0) {
      run.counts_calls = true;
    } else if (strcmp(argv[at], "--preload") == 0 && more) {
      preload = argv[++at];
    } else if (strcmp(argv[at], "--timeout") == 0 && more) {
      timeout = strtod(argv[++at], NULL);
    } else if (strcmp(argv[at], "--report") == 0 && more) {
      const int fd = (int)strtol(argv[++at], NULL, 10);
      fcntl(fd, F_SETFD, FD_CLOEXEC);
      run.report = fdopen(fd, "w");
    } else {
      break;
    }
  }
  if (run.report == NULL || at + 1 >= argc || strcmp(argv[at], "--") != 0) {
    fprintf(stderr,
            "usage: launch --report FD [--tree] [--count-calls] [--preload LIBRARY] "
            "[--timeout SECONDS] -- PROGRAM ARG...\n");
    return 125;
  }
  launch(&run, argv + at + 1, preload, timeout);
  return fclose(run.report) == 0 ? 0 : 125;
}

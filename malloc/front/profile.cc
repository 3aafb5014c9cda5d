#include "front/profile.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "base/atomic.h"
#include "base/compiler.h"
#include "front/signal_retry.h"
#include "front/thread.h"
#include "platform/message.h"
#include "platform/options.h"
#include "platform/random.h"
#include "platform/raw_io.h"
#include "platform/saved_errno.h"
#include "profile/profiler.h"
#include "profile/stack.h"

namespace near {
namespace {

enum class Stacks : long { tables = 0, frames = 1 };

constexpr int kTries = 1000;  // at exit, a millisecond apart
constexpr size_t kLongestInterval = 1'000'000'000;
constexpr char kDefaultFile[] = "nearmalloc.%p.profile";
constexpr char kSocket[] = "unix:";  // begins the name of a socket instead of a file
// Begins the name of a file that is kept from the start on; behind a comma, a socket's may follow.
constexpr char kKept[] = "kept:";

// The process in which the option started the profiler.
pid_t started_in = 0;
// A copy, because a program that changes its title in the list of processes writes over its
// environment.
char file_name[512] = "";

// How many names of files this process made. relaxed, where it is used: each has its own number
Atomic<int> written{0};
// A thread writes the profile to the file. Two at once would mix in a file without %n.
Atomic<bool> is_writing{false};
constinit SignalRetry retry;

template <size_t kBytes>
bool begins_with(const char* name, const char (&word)[kBytes]) {
  return strncmp(name, word, kBytes - 1) == 0;
}

void keep_file_name() {
  const char* text = profile_file_text() != nullptr ? profile_file_text() : kDefaultFile;
  if (strlen(text) >= sizeof file_name) {
    message("NEARMALLOC_PROFILE_FILE is ignored: it has more than %zu bytes", sizeof file_name - 1);
    text = kDefaultFile;
  }
  const char* behind = strchr(text, ',');
  if (begins_with(text, kKept) && behind != nullptr && !begins_with(behind + 1, kSocket)) {
    message("NEARMALLOC_PROFILE_FILE is ignored: behind a comma it needs unix:PATH");
    text = kDefaultFile;
  }
  memcpy(file_name, text, strlen(text) + 1);
}

bool is_kept() { return begins_with(file_name, kKept); }

// The path of the socket to which the profile goes at exit; null if there is none.
const char* socket_path() {
  const char* name = file_name;
  if (is_kept()) {
    name = strchr(name, ',');
    if (name == nullptr) return nullptr;
    name++;
  }
  return begins_with(name, kSocket) ? name + sizeof kSocket - 1 : nullptr;
}

// Copies the path with the process's number for each %p, and that of the profile for %n. False if
// the path is too long, or names the file of another process: a child of fork writes only to a file
// of its own.
bool make_path(const char* from, char* out, size_t room) {
  const bool is_own = started_in == getpid();
  bool numbered = false;
  const int number = written.fetch_add(1, kRelaxed) + 1;  // relaxed: see above
  size_t length = 0;
  const char* const end = from + strcspn(from, is_kept() ? "," : "");
  for (; from != end; from++) {
    if (from[0] == '%' && (from[1] == 'p' || from[1] == 'n')) {
      if (length + 12 > room) return false;
      const bool is_process = from[1] == 'p';
      const int value = is_process ? getpid() : number;
      length += static_cast<size_t>(snprintf(out + length, room - length, "%d", value));
      from++;
      numbered = numbered || is_process;
    } else if (length + 1 < room) {
      out[length++] = *from;
    } else {
      return false;
    }
  }
  out[length] = '\0';
  return is_own || numbered;
}

NEAR_NOINLINE bool write_to(int file, profile::Format format) {
  profile::Sink out(file);
  profile::write_profile(out, format);
  return out.flush();
}

NEAR_NOINLINE bool write_to(int file) {
  return write_to(file, static_cast<profile::Format>(option(Option::profile_format)));
}

NEAR_NOINLINE void write_whole_file() {
  char path[512];
  if (!make_path(file_name, path, sizeof path)) return;
  const int file = raw::open_to_write(path);
  if (file < 0) {
    return message("no profile is written: '%s' cannot be opened, or is a link or not one's own",
                   path);
  }
  if (!write_to(file)) message("the profile '%s' is not whole: it cannot be written", path);
  raw::close(file);
}

// False if another thread writes, or the one that a handler interrupted.
NEAR_NOINLINE bool write_file() {
  if (is_writing.exchange(true, kAcquire)) return false;  // pairs: profile-written
  write_whole_file();
  is_writing.store(false, kRelease);  // pairs: profile-written
  return true;
}

void keep_file(bool list) {
  char path[512];
  if (!make_path(file_name + sizeof kKept - 1, path, sizeof path)) return;
  const int file = raw::open_to_map(path);
  if (file < 0 || !profile::keep_in(file, list)) message("no profile is kept in '%s'", path);
  if (file >= 0) raw::close(file);
}

// Hands the profile to a tool, which then looks at the process and lets it end by closing the
// socket (`./near run --leaks`). The tool may stop all threads meanwhile. Not from a child of fork:
// it has the stacks of threads that it does not have. The stack below here is searched for
// pointers, so frames are small, and variables begin with a value: what was in their place before
// may be a pointer to a leaked block.
NEAR_NOINLINE void show_at_exit(const char* path) {
  if (started_in != getpid()) return;
  const int file = raw::connect_to(path);
  if (file < 0) return message("no profile is written: the socket '%s' refuses", path);
  // A process whose tool has died ends without a signal.
  struct sigaction ignore{};
  struct sigaction before{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  if (write_to(file)) {
    raw::end_writing(file);
    char none = 0;
    while (raw::read(file, &none, 1) < 0 && errno == EINTR) {
    }
  }
  sigaction(SIGPIPE, &before, nullptr);
  raw::close(file);
}

void write_at_exit() {
  const SavedErrno saved;
  if (is_inside()) return;
  if (const char* socket = socket_path()) {
    return show_at_exit(socket);
  }
  // A handler in another thread may write: the process ends when it has done so, or soon.
  const timespec millisecond{0, 1'000'000};
  for (int tries = 0; tries < kTries; tries++) {
    if (write_file()) return;
    syscall(SYS_nanosleep, &millisecond, nullptr);  // no cancellation point
  }
  message("no profile is written at exit: one is still being written");
}

int chosen_signal() { return static_cast<int>(option(Option::profile_signal)); }

// A thread that has the profiler's lock is inside. Formats with the names of functions may wait for
// a thread that loads code.
void on_signal(int) {
  const SavedErrno saved;
  const bool outside = !is_inside();
  if (outside && !profile::summary().any) {
    return message("no profile is written: the profiler was not started");
  }
  if (outside && write_file()) return;
  if (!retry.soon(chosen_signal())) message("no profile is written: the system refuses a timer");
}

// A program cannot go on after a signal that tells of its own fault.
bool tells_of_fault(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
         signal == SIGTRAP;
}

void write_at_signal() {
  if (tells_of_fault(chosen_signal())) {
    return message("NEARMALLOC_PROFILE_SIGNAL is ignored: signal %d tells of a fault",
                   chosen_signal());
  }
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  if (!retry.make(chosen_signal()) || sigaction(chosen_signal(), &action, nullptr) != 0) {
    message("NEARMALLOC_PROFILE_SIGNAL is ignored: the system refuses a timer or a handler");
  }
}

__attribute__((constructor)) void obey_profile_option(int, char**, char** environment) {
  read_options(environment);
  if (option(Option::profile) == 0 && chosen_signal() == 0) return;
  started_in = getpid();
  keep_file_name();
  keep_stderr();
  if (socket_path() != nullptr || is_kept()) {
    if (chosen_signal() != 0)
      message("NEARMALLOC_PROFILE_SIGNAL is ignored: it needs a plain file");
  } else if (chosen_signal() != 0) {
    write_at_signal();
  }
  if (option(Option::profile) == 0) return;
  if (start_profile(0) != 0) return message("there is no memory for a profile");
  if (is_kept()) keep_file(true);
  if (is_kept() && socket_path() == nullptr) return;
  atexit(write_at_exit);
}

}  // namespace

int start_profile(size_t mean) {
  start_library();
  if (mean == 0) mean = static_cast<size_t>(option(Option::profile_interval));
  if (mean > kLongestInterval) return EINVAL;
  profile::prepare_stacks(static_cast<Stacks>(option(Option::profile_stacks)) == Stacks::frames);
  switch (profile::start(mean, secret(Secret::sampling) + static_cast<uint64_t>(getpid()))) {
    case profile::Started::yes:
      return 0;
    case profile::Started::already:
      return EALREADY;
    case profile::Started::refused:
      break;
  }
  return ENOMEM;
}

void forget_profile_writers() {
  written.store(0, kRelaxed);         // relaxed: see above
  is_writing.store(false, kRelaxed);  // relaxed: the child has one thread
  profile::forget_other_threads();
}

void keep_profile_of_child() {
  const SavedErrno saved;
  forget_profile_writers();
  if (profile::stop_keeping()) keep_file(false);
}

int stop_profile() { return profile::stop() ? 0 : EALREADY; }

int write_profile(FILE* stream, long format) {
  if (format < 0 || format >= profile::kFormats) return EINVAL;
  profile::Sink out(stream);
  if (!profile::write_profile(out, static_cast<profile::Format>(format))) return ENODATA;
  return out.flush() ? 0 : EIO;
}

bool write_jeprof_file(const char* path) {
  char name[64];
  if (path == nullptr) {
    const int number = written.fetch_add(1, kRelaxed);  // relaxed: see above
    snprintf(name, sizeof name, "jeprof.%d.%d.m%d.heap", getpid(), number, number);
    path = name;
  }
  if (!profile::summary().any) return false;
  const int file = raw::open_to_write(path);
  if (file < 0) return false;
  const bool is_whole = write_to(file, profile::Format::jeprof);
  raw::close(file);
  return is_whole;
}

}  // namespace near

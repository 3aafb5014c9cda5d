#include "front/profile.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/compiler.h"
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

constexpr size_t kLongestInterval = 1'000'000'000;
constexpr char kDefaultFile[] = "nearmalloc.%p.profile";
constexpr char kSocket[] = "unix:";  // begins the name of a socket instead of a file
constexpr char kKept[] = "kept:";    // begins the name of a file that is kept from the start on

// The process in which the option started the profiler.
pid_t started_in = 0;
// A copy, because a program that changes its title in the list of processes writes over its
// environment.
char file_name[512] = "";

void keep_file_name() {
  const char* text = profile_file_text() != nullptr ? profile_file_text() : kDefaultFile;
  if (strlen(text) >= sizeof file_name) {
    message("NEARMALLOC_PROFILE_FILE is ignored: it has more than %zu bytes", sizeof file_name - 1);
    text = kDefaultFile;
  }
  memcpy(file_name, text, strlen(text) + 1);
}

// Copies the path with the process's number for each %p. False if the path is too long, or names
// the file of another process: a child of fork writes only to a file of its own.
bool make_path(const char* from, char* out, size_t room) {
  const bool is_own = started_in == getpid();
  bool numbered = false;
  size_t length = 0;
  for (; *from != '\0'; from++) {
    if (from[0] == '%' && from[1] == 'p') {
      if (length + 12 > room) return false;
      length += static_cast<size_t>(snprintf(out + length, room - length, "%d", getpid()));
      from++;
      numbered = true;
    } else if (length + 1 < room) {
      out[length++] = *from;
    } else {
      return false;
    }
  }
  out[length] = '\0';
  return is_own || numbered;
}

NEAR_NOINLINE bool write_to(int file) {
  profile::Sink out(file);
  profile::write_profile(out, static_cast<profile::Format>(option(Option::profile_format)));
  return out.flush();
}

NEAR_NOINLINE void write_file_at_exit() {
  char path[512];
  if (!make_path(file_name, path, sizeof path)) return;
  const int file = raw::open_to_write(path);
  if (file < 0) return message("no profile is written: '%s' cannot be opened", path);
  if (!write_to(file)) message("the profile '%s' is not whole: it cannot be written", path);
  raw::close(file);
}

template <size_t kBytes>
bool begins_with(const char (&word)[kBytes]) {
  return strncmp(file_name, word, kBytes - 1) == 0;
}

void keep_file() {
  char path[512];
  if (!make_path(file_name + sizeof kKept - 1, path, sizeof path)) return;
  const int file = raw::open_to_map(path);
  if (file < 0 || !profile::keep_in(file)) message("no profile is kept in '%s'", path);
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
  if (begins_with(kSocket)) {
    show_at_exit(file_name + sizeof kSocket - 1);
  } else {
    write_file_at_exit();
  }
}

__attribute__((constructor)) void obey_profile_option(int, char**, char** environment) {
  read_options(environment);
  if (option(Option::profile) == 0) return;
  started_in = getpid();
  keep_file_name();
  keep_stderr();
  if (start_profile(0) != 0) return message("there is no memory for a profile");
  if (begins_with(kKept)) return keep_file();
  atexit(write_at_exit);
}

}  // namespace

int start_profile(size_t mean) {
  start_library();
  if (mean == 0) mean = static_cast<size_t>(option(Option::profile_interval));
  if (mean > kLongestInterval) return EINVAL;
  profile::prepare_stacks(static_cast<Stacks>(option(Option::profile_stacks)) == Stacks::frames);
  switch (profile::start(mean, process_random() + static_cast<uint64_t>(getpid()))) {
    case profile::Started::yes:
      return 0;
    case profile::Started::already:
      return EALREADY;
    case profile::Started::refused:
      break;
  }
  return ENOMEM;
}

void keep_profile_of_child() {
  if (!begins_with(kKept)) return;
  const SavedErrno saved;
  profile::stop_keeping();
  keep_file();
}

int stop_profile() { return profile::stop() ? 0 : EALREADY; }

int write_profile(FILE* stream, long format) {
  if (format < 0 || format >= profile::kFormats) return EINVAL;
  profile::Sink out(stream);
  if (!profile::write_profile(out, static_cast<profile::Format>(format))) return ENODATA;
  return out.flush() ? 0 : EIO;
}

}  // namespace near

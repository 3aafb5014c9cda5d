// Which processor, which node, which thread; which processors there are; the files that say so.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/calls.h"
#include "runtime/interposed.h"

namespace near::manycore {
namespace {

// The process and its first thread have this identifier in every run. The host has none as large.
constexpr int kProcess = 5'000'000;

int thread_identifier() { return kProcess + static_cast<int>(id_of(current())); }

void copy_set(const Processors& from, size_t bytes, void* to) {
  auto* const target = static_cast<unsigned char*>(to);
  const auto* const source = reinterpret_cast<const unsigned char*>(from.words);
  std::fill_n(target, bytes, static_cast<unsigned char>(0));
  std::copy_n(source, std::min(bytes, sizeof from.words), target);
}

// The processors of the set that are online; false if there are none.
bool read_set(const void* from, size_t bytes, Processors& to) {
  to = {};
  const auto* const source = static_cast<const unsigned char*>(from);
  bool any = false;
  for (unsigned i = 0; i < online() && i / 8 < bytes; ++i) {
    if ((source[i / 8] >> i % 8 & 1) == 0) continue;
    to.add(i);
    any = true;
  }
  return any;
}

long set_own_affinity(const void* from, size_t bytes) {
  Processors wanted;
  if (!read_set(from, bytes, wanted)) return -EINVAL;
  order();
  charge("sched_setaffinity", machine().system_call);
  set_affinity(current(), wanted);
  return 0;
}

}  // namespace

bool simulated_identity(long number, const long (&a)[6], long& result) {
  switch (number) {
    case SYS_gettid:
      result = thread_identifier();
      return true;
    case SYS_getpid:
      result = kProcess;
      return true;
    case SYS_getcpu:
      if (a[0] != 0) *reinterpret_cast<unsigned*>(a[0]) = current_processor();
      if (a[1] != 0) *reinterpret_cast<unsigned*>(a[1]) = machine().node_of[current_processor()];
      result = 0;
      return true;
    case SYS_sched_getaffinity:
      copy_set(affinity_of(current()), static_cast<size_t>(a[1]), reinterpret_cast<void*>(a[2]));
      result = static_cast<long>(std::min(static_cast<size_t>(a[1]), sizeof(Processors)));
      return true;
    case SYS_sched_setaffinity:
      result = set_own_affinity(reinterpret_cast<void*>(a[2]), static_cast<size_t>(a[1]));
      return true;
    case SYS_openat: {
      char buffer[4096];
      const char* const path =
          redirected(reinterpret_cast<const char*>(a[1]), buffer, sizeof buffer);
      charge("openat", machine().system_call);
      result = host_call(SYS_openat, a[0], word(path), a[2], a[3]);
      return true;
    }
    default:
      return false;
  }
}

NEAR_INTERPOSED int sched_getcpu() noexcept { return static_cast<int>(current_processor()); }
NEAR_INTERPOSED int getcpu(unsigned* processor, unsigned* node) noexcept {
  if (processor != nullptr) *processor = current_processor();
  if (node != nullptr) *node = machine().node_of[current_processor()];
  return 0;
}
NEAR_INTERPOSED pid_t gettid() noexcept { return thread_identifier(); }
NEAR_INTERPOSED pid_t getpid() noexcept { return kProcess; }

NEAR_INTERPOSED int sched_getaffinity(pid_t, size_t bytes, cpu_set_t* set) noexcept {
  copy_set(affinity_of(current()), bytes, set);
  return 0;
}
NEAR_INTERPOSED int sched_setaffinity(pid_t, size_t bytes, const cpu_set_t* set) noexcept {
  return static_cast<int>(answer(set_own_affinity(set, bytes)));
}
NEAR_INTERPOSED int pthread_getaffinity_np(pthread_t thread, size_t bytes,
                                           cpu_set_t* set) noexcept {
  const Fiber* const fiber = fiber_of(thread);
  if (fiber == nullptr) return ESRCH;
  copy_set(affinity_of(fiber), bytes, set);
  return 0;
}
NEAR_INTERPOSED int pthread_setaffinity_np(pthread_t thread, size_t bytes,
                                           const cpu_set_t* set) noexcept {
  Fiber* const fiber = fiber_of(thread);
  Processors wanted;
  if (fiber == nullptr) return ESRCH;
  if (!read_set(set, bytes, wanted)) return EINVAL;
  order();
  charge("sched_setaffinity", machine().system_call);
  set_affinity(fiber, wanted);
  return 0;
}

// --- how many there are ---

NEAR_INTERPOSED long sysconf(int name) noexcept {
  if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF) return online();
  return NEAR_REAL(sysconf)(name);
}
NEAR_INTERPOSED int get_nprocs() noexcept { return static_cast<int>(online()); }
NEAR_INTERPOSED int get_nprocs_conf() noexcept { return static_cast<int>(online()); }

// --- files: libc may hold a lock while it allocates, so no other thread runs then ---

namespace {

class Path {
 public:
  explicit Path(const char* path) : path_(redirected(path, buffer_, sizeof buffer_)) {}
  operator const char*() const { return path_; }

 private:
  char buffer_[4096];
  const char* path_;
};

}  // namespace

NEAR_INTERPOSED int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const auto mode = va_arg(list, unsigned);
  va_end(list);
  return static_cast<int>(
      answer(host_call(SYS_openat, AT_FDCWD, word<const char>(Path(path)), flags, mode)));
}
NEAR_INTERPOSED int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const auto mode = va_arg(list, unsigned);
  va_end(list);
  return open(path, flags, mode);
}
NEAR_INTERPOSED FILE* fopen(const char* path, const char* mode) {
  const Unswitched unswitched;
  return NEAR_REAL(fopen)(Path(path), mode);
}
NEAR_INTERPOSED FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }
NEAR_INTERPOSED DIR* opendir(const char* path) {
  const Unswitched unswitched;
  return NEAR_REAL(opendir)(Path(path));
}
NEAR_INTERPOSED int access(const char* path, int mode) noexcept {
  return static_cast<int>(
      answer(host_call(SYS_faccessat, AT_FDCWD, word<const char>(Path(path)), mode)));
}
NEAR_INTERPOSED int stat(const char* path, struct stat* status) noexcept {
  return static_cast<int>(
      answer(host_call(SYS_newfstatat, AT_FDCWD, word<const char>(Path(path)), word(status), 0)));
}

}  // namespace near::manycore

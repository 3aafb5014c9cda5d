// setrlimit and prlimit, which report a changed limit to the allocator; only the overriding shared
// library has them.
//
// Under a limit of address space, the free of a large run unmaps memory at once, so the allocator
// has to know the limit. It cannot ask when it frees: a sandbox may kill the process for a system
// call that the C library's malloc does not make. So the limit is read at start and here. The
// functions make the system call themselves; the C library's do nothing else.
// Thread-safety: any thread.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "platform/os.h"

namespace {

int change(pid_t process, int resource, const struct rlimit64* wanted, struct rlimit64* before) {
  const auto result = static_cast<int>(syscall(SYS_prlimit64, process, resource, wanted, before));
  const bool is_own = process == 0 || process == getpid();
  if (result == 0 && wanted != nullptr && is_own) near::os::record_limits();
  return result;
}

}  // namespace

static_assert(sizeof(struct rlimit) == sizeof(struct rlimit64));

extern "C" {

NEAR_EXPORT int setrlimit64(__rlimit_resource_t resource, const struct rlimit64* wanted) noexcept {
  return change(0, static_cast<int>(resource), wanted, nullptr);
}

NEAR_EXPORT int prlimit64(pid_t process, enum __rlimit_resource resource,
                          const struct rlimit64* wanted, struct rlimit64* before) noexcept {
  return change(process, static_cast<int>(resource), wanted, before);
}

NEAR_EXPORT int setrlimit(__rlimit_resource_t resource, const struct rlimit* wanted) noexcept {
  return change(0, static_cast<int>(resource), reinterpret_cast<const struct rlimit64*>(wanted),
                nullptr);
}

NEAR_EXPORT int prlimit(pid_t process, enum __rlimit_resource resource, const struct rlimit* wanted,
                        struct rlimit* before) noexcept {
  return change(process, static_cast<int>(resource),
                reinterpret_cast<const struct rlimit64*>(wanted),
                reinterpret_cast<struct rlimit64*>(before));
}

}  // extern "C"

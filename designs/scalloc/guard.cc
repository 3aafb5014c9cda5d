#include "designs/scalloc/guard.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "base/atomic.h"
#include "designs/scalloc/settings.h"
#include "platform/saved_errno.h"

namespace near::design::scalloc {
namespace {

// Constants of <linux/mman.h> and <linux/pidfd.h>, which may be older here than the kernel.
constexpr int kInstall = 102;
constexpr int kRemove = 103;
constexpr int kThisThread = -10000;

// False once the kernel has refused markers: it has none, or a system-call filter forbids them.
constinit Atomic<bool> have_markers{true};

size_t reach() {
  return settings.guard == Guard::markers ? kLeastVirtualSpan : settings.virtual_span;
}

bool install_all(const iovec* ranges, size_t count, size_t bytes) {
  const auto call = [&](long process) {
    return syscall(SYS_process_madvise, process, ranges, count, kInstall, 0);
  };
  long done = call(kThisThread);
  if (done < 0 && errno == EBADF) {  // before Linux 6.14 a process has to be opened
    const long process = syscall(SYS_pidfd_open, getpid(), 0);
    if (process < 0) return false;
    done = call(process);
    close(static_cast<int>(process));
  }
  return done == static_cast<long>(bytes);
}

bool forbid(char* from, size_t bytes) {
  if (settings.guard == Guard::markers) return madvise(from, bytes, kInstall) == 0;
  // Gives the pages back first: pages behind a protection stay resident.
  return madvise(from, bytes, MADV_DONTNEED) == 0 && mprotect(from, bytes, PROT_NONE) == 0;
}

bool allow(char* from, size_t bytes) {
  if (settings.guard == Guard::markers) return madvise(from, bytes, kRemove) == 0;
  return mprotect(from, bytes, PROT_READ | PROT_WRITE) == 0;
}

bool can_guard() {
  // relaxed: publishes nothing, and one more refusal is harmless
  return settings.guard == Guard::mprotect ||
         (settings.guard == Guard::markers && have_markers.load(kRelaxed));
}

}  // namespace

bool guard_batch(char* start, size_t count, size_t accessible) {
  if (settings.guard != Guard::markers || !can_guard()) return false;
  const SavedErrno saved;
  iovec ranges[kMostInBatch];
  for (size_t i = 0; i < count; i++) {
    ranges[i] = {start + i * settings.virtual_span + accessible, reach() - accessible};
  }
  if (install_all(ranges, count, count * (reach() - accessible))) return true;
  have_markers.store(false, kRelaxed);  // relaxed: publishes nothing
  madvise(start, count * settings.virtual_span, kRemove);
  return false;
}

size_t move_guard(char* start, size_t accessible, size_t wanted) {
  if (accessible < wanted) {
    const SavedErrno saved;
    return allow(start + accessible, wanted - accessible) ? wanted : accessible;
  }
  const size_t end = min_of(accessible, reach());
  if (end <= wanted || !can_guard()) return accessible;
  const SavedErrno saved;
  return forbid(start + wanted, end - wanted) ? wanted : accessible;
}

}  // namespace near::design::scalloc

#include "designs/shared/arena.h"

#include "base/bits.h"
#include "platform/os.h"

namespace near::design {

bool Arena::reserve(size_t wanted, size_t least, size_t alignment, size_t step) {
  os::record_limits();
  const size_t limit = os::limit();
  if (limit != SIZE_MAX) {
    while (wanted > limit / 4 && wanted / 2 >= least) wanted /= 2;
  }
  for (; wanted >= least; wanted /= 2) {
    if (void* start = os::reserve(wanted, alignment)) {
      use(reinterpret_cast<uintptr_t>(start), wanted, step);
      return true;
    }
  }
  return false;
}

void* Arena::take(size_t bytes) {
  size_t before = taken_.load(kRelaxed);  // relaxed: the exchange below checks it
  do {
    if (bytes > size_ - before || !commit_up_to(before + bytes)) return nullptr;
    // relaxed: the thread that takes memory publishes it by its own means
  } while (!taken_.compare_exchange_weak(before, before + bytes, kRelaxed, kRelaxed));
  return reinterpret_cast<void*>(start_ + before);
}

// Each thread that finds the mark too low commits for itself; committing pages a second time
// changes nothing.
bool Arena::commit_up_to(size_t end) {
  size_t before = committed_.load(kAcquire);  // pairs: arena-commit
  if (end <= before) return true;
  const size_t after = before + min_of(align_up(end - before, step_), size_ - before);
  if (!os::commit(reinterpret_cast<void*>(start_ + before), after - before)) {
    // Another thread's commit may have succeeded.
    return end <= committed_.load(kAcquire);  // pairs: arena-commit
  }
  // pairs: arena-commit
  while (before < after && !committed_.compare_exchange_weak(before, after, kRelease, kRelaxed)) {
  }
  return true;
}

}  // namespace near::design

// Address space that is reserved once and handed out from its start; readable and writable up to a
// mark that only rises.
// Invariant: start <= taken <= committed <= end.
// Who may touch it: `reserve` once at start; the rest any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "designs/shared/ranks.h"

namespace near::design {

class Arena {
 public:
  // Reserves `wanted` bytes, or half of it, or half of that, down to `least`. `alignment`: a power
  // of two. `step`: what is committed at a time, a multiple of every page size.
  bool reserve(size_t wanted, size_t least, size_t alignment, size_t step);

  // `bytes` of zeroed memory that nobody has had, at a multiple of the sizes asked so far; null if
  // the arena is at its end or memory is refused.
  void* take(size_t bytes);

  // The same, but no thread waits for another: each that finds the mark too low raises it itself.
  void* take_lock_free(size_t bytes);

  bool contains(const void* pointer) const {
    return reinterpret_cast<uintptr_t>(pointer) - start_ < size_;
  }
  // Whether `take` has handed out the byte there.
  bool has_given(const void* pointer) const {
    return reinterpret_cast<uintptr_t>(pointer) - start_ < taken();
  }
  uintptr_t start() const { return start_; }
  size_t size() const { return size_; }
  size_t taken() const { return taken_.load(kRelaxed); }          // relaxed: a statistic
  size_t committed() const { return committed_.load(kRelaxed); }  // relaxed: a statistic

  void lock_for_fork() { lock_.lock_for_fork(); }
  void unlock_for_fork() { lock_.unlock_for_fork(); }

 private:
  bool commit_up_to(size_t end);
  bool raise_to(size_t end);

  uintptr_t start_ = 0;
  size_t size_ = 0;
  size_t step_ = 0;
  Atomic<size_t> taken_{0};
  Atomic<size_t> committed_{0};
  Mutex lock_{kInnermostRank};
};

}  // namespace near::design

// Metadata of one node, in memory of that node, on normal pages. [Yang23 §3.3, §3.4]
//
// Handed out from the start of its part of the reservation, never taken back: whoever needs it
// recycles it.
// Who may touch it: `set` at start; `take` any thread, with any other lock held.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "designs/shared/ranks.h"

namespace near::design::numalloc {

class Metadata {
 public:
  void set(uintptr_t start, size_t size) {
    start_ = start;
    size_ = size;
  }

  // Zeroed, aligned to a cache line; null if it is refused.
  void* take(size_t bytes);

  size_t committed() const { return committed_.load(kRelaxed); }  // relaxed: a statistic
  size_t size() const { return size_; }

  void lock_for_fork() { lock_.lock_for_fork(); }
  void unlock_for_fork() { lock_.unlock_for_fork(); }

 private:
  Mutex lock_{kInnermostRank};
  uintptr_t start_ = 0;
  size_t size_ = 0;
  size_t used_ = 0;
  Atomic<size_t> committed_{0};
};

}  // namespace near::design::numalloc

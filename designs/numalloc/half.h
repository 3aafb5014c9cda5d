// Half of a node's region: never-allocated memory behind a pointer that only rises (the paper's
// bpSmall, bpBig). [Yang23 §3.1]
// Invariant: used <= committed <= size; every size is a multiple of a bag, committed of kStep.
// Thread-safety: guarded by the lock of the owner; any thread reads the statistics.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"

namespace near::design::numalloc {

class Half {
 public:
  static constexpr size_t kStep = 2 * kMiB;  // committed at a time: a huge page

  void set(uintptr_t start, size_t size) {
    start_ = start;
    size_ = size;
  }

  // `bytes` of zeroed, never-used memory; null, with nothing changed, if it is refused. Before more
  // is committed, `before_use` is called, and may refuse.
  void* take(size_t bytes, bool (*before_use)(uintptr_t start, size_t bytes) = nullptr);

  uintptr_t start() const { return start_; }
  size_t size() const { return size_; }
  size_t used() const { return used_.load(kRelaxed); }            // relaxed: a statistic to others
  size_t committed() const { return committed_.load(kRelaxed); }  // relaxed: a statistic to others

 private:
  uintptr_t start_ = 0;
  size_t size_ = 0;
  Atomic<size_t> used_{0};
  Atomic<size_t> committed_{0};
};

}  // namespace near::design::numalloc

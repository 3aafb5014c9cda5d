// Runs of freed large blocks that a heap keeps for its next blocks of the same length, so that a
// program that frees and allocates such blocks seldom takes its shard's lock. Runs come here that
// have no slot (heap/run_slots.h).
//
// Bound: the runs that came last, at most kMost of them and kMostSlices slices; fewer slices if the
// thread's large blocks are few (a sixteenth of them, but kLeastSlices); and with those in slots at
// most kMostSlices, or an eighth of the thread's large blocks if that is more. While a thread frees
// many and needs none again, it keeps only one in kSeldom.
// The purge thread empties the cache of a heap that took no slow path during a round, or no run
// from here.
// Invariant: each run is of the heap's shard, belongs to no block, and has kind == none.
// Guard: the lock of the heap. Any thread calls `any`; the owner's thread calls `wants`.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "span/layout.h"

namespace near {

class RunCache {
 public:
  static constexpr uint32_t kMostSlices = kMiB >> kSliceShift;

  // The run of this length that came last; null if there is none.
  Span* take(uint32_t slices) {
    for (unsigned at = count(); at-- > 0;) {
      if (runs_[at]->slices != slices) continue;
      unneeded_ = 0;
      needed_ = true;
      return take_at(at);
    }
    return nullptr;
  }

  // True if a run that is freed now should be kept.
  bool wants(const Span& run) {
    if (run.slices > kMostSlices) return false;
    if (unneeded_ < kMost) return true;
    unneeded_++;
    return unneeded_ % kSeldom == 0;
  }

  // Adds a run of at most kMostSlices. The caller then takes what is surplus.
  void add(Span& run) {
    slices_ += run.slices;
    const unsigned at = count();
    runs_[at] = &run;
    count_.store(at + 1, kRelaxed);  // relaxed: see any()
  }

  // The oldest run if there are too many runs or slices for a heap with `live` bytes of large
  // blocks, and `elsewhere` slices of runs in slots; else null.
  Span* take_surplus(uint64_t live, uint32_t elsewhere) {
    const auto slices = static_cast<size_t>(live >> kSliceShift);
    const size_t in_all = max_of(slices / kShareInAll, kMostSlices);
    const size_t most = min_of(min_of(max_of(slices / kShareOfLive, kLeastSlices), kMostSlices),
                               in_all - min_of(elsewhere, in_all));
    if (!any() || (count() <= kMost && slices_ <= most)) return nullptr;
    unneeded_++;
    return take_at(0);
  }

  Span* take_oldest() { return any() ? take_at(0) : nullptr; }

  // Called at the end of a round of the purge thread: true if no run was taken for a block in it.
  bool ends_round_unused() {
    const bool needed = needed_;
    needed_ = false;
    return !needed;
  }

  // Adds the bytes of the runs to the sums of their nodes.
  void add_bytes(uint64_t* bytes_of_node) const {
    for (unsigned i = 0; i < count(); i++) bytes_of_node[runs_[i]->node] += runs_[i]->bytes();
  }

  // True if it holds runs. relaxed: a hint for other threads
  bool any() const { return count() > 0; }

 private:
  static constexpr unsigned kMost = 8;
  static constexpr size_t kLeastSlices = 2;
  static constexpr size_t kShareOfLive = 16;
  static constexpr size_t kShareInAll = 8;
  static constexpr uint32_t kSeldom = 16;

  unsigned count() const { return count_.load(kRelaxed); }  // relaxed: see any()

  Span* take_at(unsigned at) {
    Span* run = runs_[at];
    slices_ -= run->slices;
    const unsigned last = count() - 1;
    for (; at < last; at++) runs_[at] = runs_[at + 1];
    count_.store(last, kRelaxed);  // relaxed: see any()
    return run;
  }

  Span* runs_[kMost + 1] = {};  // oldest first; room for one that is surplus
  size_t slices_ = 0;
  bool needed_ = false;    // a run was taken for a block in this round
  uint32_t unneeded_ = 0;  // runs that were surplus, or not kept, since one was needed
  Atomic<uint32_t> count_{0};
};

}  // namespace near

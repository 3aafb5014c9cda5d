// The run of a large block that a thread freed, for the thread's next block of the same length: one
// word, so that such a pair of calls takes no lock.
//
// Invariant: a run is in one slot, or the thread that took it out of one by an atomic operation
// owns it. That thread sees what the thread that put the run in wrote to its descriptor.
// Thread-safety: any thread; only the owner of the heap puts runs in. The purge thread empties the
// slots of idle threads: it sees a run that was put in before the request that woke it, because all
// four operations are seq_cst (node/purge_signal.h).
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace near {

// `Run`: has its length in `slices`, at most kMostSlices, which is constant while the run is here.
template <class Run>
class RunSlot {
 public:
  // In the bits of a run's address that are 0 lie its length, and whether it came since the last
  // call of take_unused.
  static constexpr uint32_t kMostSlices = alignof(Run) / 2 - 1;

  // Puts a run in. Returns the one that was in before, or null.
  Run* put(Run& run) {
    const uintptr_t word = reinterpret_cast<uintptr_t>(&run) | run.slices | kNew;
    return run_of(word_.exchange(word, kSeqCst));  // pairs: run-slot, purge-signal
  }

  // Takes the run out if it has this length (1 or more); else null.
  Run* take(uint64_t slices) {
    uintptr_t word = word_.load(kRelaxed);  // relaxed: compared again as it is taken
    while ((word & kMostSlices) == slices) {
      // pairs: run-slot. relaxed: a failure reads nothing of the run
      if (word_.compare_exchange_strong(word, 0, kAcquire, kRelaxed)) return run_of(word);
    }
    return nullptr;
  }

  // Takes the run out, whatever its length; null if there is none.
  Run* take() {
    return word_.load(kSeqCst) == 0  // pairs: purge-signal
               ? nullptr
               : run_of(word_.exchange(0, kAcquire));  // pairs: run-slot
  }

  // Takes the run out if it came before the last call; else null.
  Run* take_unused() {
    uintptr_t word = word_.load(kRelaxed);  // relaxed: compared again as it is taken
    if (word == 0) return nullptr;
    if ((word & kNew) != 0) {
      // relaxed: the run stays, and the next holder acquires what its `put` released
      word_.compare_exchange_strong(word, word & ~kNew, kRelaxed, kRelaxed);
      return nullptr;
    }
    // pairs: run-slot. relaxed: a failure reads nothing of the run
    return word_.compare_exchange_strong(word, 0, kAcquire, kRelaxed) ? run_of(word) : nullptr;
  }

  // The length of the run that is in, or 0: a hint. pairs: purge-signal
  uint32_t slices() const { return static_cast<uint32_t>(word_.load(kSeqCst) & kMostSlices); }

 private:
  static constexpr uintptr_t kNew = alignof(Run) / 2;

  static Run* run_of(uintptr_t word) {
    return reinterpret_cast<Run*>(word & ~uintptr_t{alignof(Run) - 1});
  }

  Atomic<uintptr_t> word_{0};
};

}  // namespace near

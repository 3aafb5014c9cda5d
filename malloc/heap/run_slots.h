// Runs of large blocks that a heap's thread freed, for its next blocks of the same length, so that
// such calls seldom take a lock. A common slot (heap/run_slot.h) is for all lengths. Besides, each
// short length has a row of slots. The row opens once the thread needed that length
// several times after it had a run of it and could not keep it; while the row is open, runs of that
// length come into the common slot only if the row is full.
//
// Bound: kMostSlices in all slots. The rows have no room for more, and precede the common slot.
// A run that the thread does not use leaves at the end of the second round of the purge thread, and
// its row closes. All rows of a thread that is idle close.
// Thread-safety: any thread takes runs and closes rows; only the owner's thread does the rest.
#pragma once

#include <cstdint>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "heap/run_cache.h"
#include "heap/run_slot.h"

namespace near {

template <class Run>
class RunSlots {
 public:
  static constexpr uint32_t kMostSlices = RunCache::kMostSlices;
  static_assert(kMostSlices <= RunSlot<Run>::kMostSlices);

  // Puts in a run of at most kMostSlices. Returns the one that has no room then, or null.
  NEAR_INLINE Run* put(Run& run) {
    // relaxed: see is_open
    return likely(open_.load(kRelaxed) == 0) ? put_common(run) : put_with_rows(run);
  }

  // Takes out a run of this length (1 or more); null if there is none.
  Run* take(uint64_t slices) {
    NEAR_ASSERT(slices > 0);
    Run* run = common().take(slices);
    if (run != nullptr || slices > kShort) return run;
    run = row_of(slices)[0].take(slices);
    return run != nullptr || depth_of(slices) == 1 ? run : row_of(slices)[1].take(slices);
  }

  // Called when the thread needed a run of this length and there was none.
  void count_missed(uint64_t slices) {
    if (slices > kShort || (could_not_keep_ >> slices & 1) == 0 || is_open(slices)) return;
    could_not_keep_ &= ~(1u << slices);
    if (++missed_[slices - 1] < kOpensAfter) return;
    missed_[slices - 1] = 0;
    open_.fetch_or(1u << slices, kRelaxed);  // relaxed: see is_open
  }

  // Takes any run out, and closes the rows; null if there is none.
  Run* take() {
    open_.store(0, kRelaxed);  // relaxed: see is_open
    for (RunSlot<Run>& slot : slots_) {
      if (Run* run = slot.take()) return run;
    }
    return nullptr;
  }

  // Passes to `give` the runs that came before the last call, and closes their rows. The
  // caller excludes other calls.
  template <class Give>
  void take_unused(Give&& give) {
    for (RunSlot<Run>& slot : slots_) {
      Run* run = slot.take_unused();
      if (run == nullptr) continue;
      // relaxed: see is_open
      if (run->slices <= kShort) open_.fetch_and(~bit(*run), kRelaxed);
      give(*run);
    }
  }

  // The slices of all runs: a hint.
  uint32_t slices() const {
    uint32_t sum = 0;
    for (const RunSlot<Run>& slot : slots_) sum += slot.slices();
    return sum;
  }

 private:
  static constexpr unsigned kShort = 4;  // slices of the longest length that has a row
  static constexpr uint8_t kOpensAfter = 4;

  // A row has two slots, that of the longest runs one: in all kMostSlices.
  static constexpr unsigned depth_of(uint64_t slices) { return slices < kShort ? 2 : 1; }
  static_assert(2 * (1 + 2 + 3) + 4 == kMostSlices);

  static unsigned bit(const Run& run) { return 1u << run.slices; }
  // relaxed: a policy. A row that closes may hold runs: `take` finds them.
  bool is_open(uint64_t slices) const {
    return slices <= kShort && (open_.load(kRelaxed) >> slices & 1) != 0;
  }
  // Notes that there was no room for a run.
  Run* leave(Run* run) {
    if (run != nullptr && run->slices <= kShort) could_not_keep_ |= bit(*run);
    return run;
  }

  Run* put_common(Run& run) {
    Run* before = common().put(run);
    return likely(before == nullptr) ? nullptr : leave(before);
  }

  NEAR_NOINLINE Run* put_with_rows(Run& run) {
    const unsigned depth = is_open(run.slices) ? depth_of(run.slices) : 0;
    for (unsigned i = 0; i < depth; i++) {
      RunSlot<Run>& slot = row_of(run.slices)[i];
      if (slot.slices() > 0) continue;
      slot.put(run);
      const bool too_many = common().slices() > 0 && slices() > kMostSlices;
      return too_many ? leave(common().take()) : nullptr;
    }
    const uint32_t in_rows = slices() - common().slices();
    return in_rows + run.slices > kMostSlices ? leave(&run) : put_common(run);
  }

  RunSlot<Run>* row_of(uint64_t slices) { return slots_ + 2 * (slices - 1); }
  RunSlot<Run>& common() { return slots_[7]; }

  RunSlot<Run> slots_[8];
  // A bit for each length: its row is open; the thread had a run of it that it could not keep.
  Atomic<uint32_t> open_{0};
  uint32_t could_not_keep_ = 0;
  uint8_t missed_[kShort] = {};
};

}  // namespace near

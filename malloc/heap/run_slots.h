// Runs of large blocks that a heap's thread freed, for its next blocks of the same length, so that
// such calls seldom take a lock. The common slot (heap/run_slot.h) holds the run that came last.
// Besides, each short length has a row of slots. It opens once the thread needed that length
// several times in vain: a thread that frees a growing buffer step by step keeps only the last one.
//
// Bound: kMostSlices in all slots. The rows have no room for more; if the common slot's run is too
// many then, it leaves.
// Thread-safety: any thread takes; only the owner's thread puts runs in and counts.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "heap/run_slot.h"
#include "span/layout.h"

namespace near {

template <class Run>
class RunSlots {
 public:
  static constexpr uint32_t kMostSlices = kMiB >> kSliceShift;
  static_assert(kMostSlices <= RunSlot<Run>::kMostSlices);

  // Puts in a run of at most kMostSlices. Returns the one that has no room then, or null.
  Run* put(Run& run) {
    if (likely(!is_open(run.slices))) return common().put(run);
    RunSlot<Run>* row = row_of(run.slices);
    return row[row[0].slices() != 0 && depth_of(run.slices) > 1 && row[1].slices() == 0].put(run);
  }

  // Takes out a run of this length (1 or more); null if there is none.
  Run* take(uint64_t slices) {
    Run* run = common().take(slices);
    if (run != nullptr || slices > kShort) return run;
    run = row_of(slices)[0].take(slices);
    return run != nullptr || depth_of(slices) == 1 ? run : row_of(slices)[1].take(slices);
  }

  // Called when the thread needed a run of this length and there was none.
  void count_missed(uint64_t slices) {
    if (slices > kShort || is_open(slices) || ++missed_[slices - 1] < kOpensAfter) return;
    open_ |= static_cast<uint8_t>(1u << slices);
  }

  // Takes a run out if there are too many slices; else null.
  Run* take_surplus() {
    if (likely(open_ == 0) || common().slices() == 0) return nullptr;
    return slices() <= kMostSlices ? nullptr : common().take();
  }

  // Takes any run out; null if there is none.
  Run* take() {
    for (RunSlot<Run>& slot : slots_) {
      if (Run* run = slot.take()) return run;
    }
    return nullptr;
  }

  // Takes out the runs that lay in the same slot at the last call, and passes them to `give`. The
  // caller excludes other calls.
  template <class Give>
  void take_unmoved(Give&& give) {
    for (RunSlot<Run>& slot : slots_) {
      uintptr_t& seen = seen_[&slot - slots_];
      const uintptr_t now = slot.look();
      Run* run = now != 0 && now == seen ? slot.take() : nullptr;
      if (run != nullptr) give(*run);
      seen = now;
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

  // A row has two slots, that of the longest runs one: in all kMostSlices, and with the common slot
  // one cache line.
  static constexpr unsigned depth_of(uint64_t slices) { return slices < kShort ? 2 : 1; }
  static_assert(2 * (1 + 2 + 3) + 4 == kMostSlices);

  bool is_open(uint64_t slices) const { return slices <= kShort && (open_ >> slices & 1) != 0; }
  RunSlot<Run>* row_of(uint64_t slices) { return slots_ + 2 * (slices - 1); }
  RunSlot<Run>& common() { return slots_[7]; }

  RunSlot<Run> slots_[8];
  uintptr_t seen_[8] = {};  // what take_unmoved saw in each
  uint8_t open_ = 0;        // a bit for each length whose row is open
  uint8_t missed_[kShort] = {};
};

}  // namespace near

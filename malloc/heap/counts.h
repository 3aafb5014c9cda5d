// What a heap counts: statistics of its thread's calls.
// Thread-safety: as each structure says; any thread may sum them.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace near {

// Calls of near_free_batch. The owner's thread writes them; any thread writes those of the two
// placeholder heaps (front/thread.h).
struct BatchCounts {
  Atomic<uint64_t> calls{0};
  Atomic<uint64_t> blocks{0};
  Atomic<uint64_t> groups{0};
  Atomic<uint64_t> remote{0};  // groups of other owners' spans: one atomic operation each
};

// Large blocks that threads with this heap took, less those that they freed: wrapping sums, of
// which only the total of all heaps means something. Written as BatchCounts.
struct LargeCounts {
  Atomic<uint64_t> blocks{0};
  Atomic<uint64_t> bytes{0};
};

// Frees into the heap's spans; Heap::visits() counts the slow paths of malloc. Written under the
// heap's lock.
struct FreeCounts {
  Atomic<uint64_t> counts{0};  // times that a span's countdown reached zero
  Atomic<uint64_t> remote{0};  // blocks that other threads freed and the heap took back
  // Blocks that the owner's thread freed into the heap's spans on its node. Counted when a span
  // reaches an event, and for hot spans also when the owner calls count_hot or ends; so recent
  // frees of running threads are missing.
  Atomic<uint64_t> local{0};
};

// Adds to one of FreeCounts.
inline void tally(Atomic<uint64_t>& sum, uint64_t more) {
  sum.store(sum.load(kRelaxed) + more, kRelaxed);  // relaxed: a statistic, written under the lock
}

}  // namespace near

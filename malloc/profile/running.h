// Whether the profiler runs, and the handshake by which each new heap learns it.
//
// The profiler sets the flag and then visits all heaps. A thread that has a new heap publishes it
// and then looks at the flag. Both change the flag's word, the thread by adding nothing, so one
// of the two comes first: if the profiler, the thread finds the flag set; if the thread, the
// profiler sees what it published. Whether a heap counts is changed only under the profiler's lock.
// Invariant: while the flag is set and the lock is free, every published heap counts, or its thread
// is about to take the lock; while it is clear, none counts.
// Thread-safety: any thread; `set` and `clear` with the lock held.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"

namespace near::profile {

// It has cache lines of its own: every slow path of malloc reads it.
class alignas(128) RunningFlag {
 public:
  // relaxed: a hint; what depends on it is under the lock
  NEAR_INLINE bool is_set() const { return word_.load(kRelaxed) != 0; }

  void set() { word_.exchange(1, kAcqRel); }  // pairs: new-heap-counts
  void clear() { word_.store(0, kRelaxed); }  // relaxed: the lock orders it

  // Called by the thread of a heap that has just been published.
  bool look_after_publishing() {
    return word_.fetch_add(0, kAcqRel) != 0;  // pairs: new-heap-counts
  }

 private:
  Atomic<uint32_t> word_{0};
};

}  // namespace near::profile

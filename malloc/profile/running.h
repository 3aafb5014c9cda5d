// Whether the profiler runs, and the handshake by which each new heap learns it.
//
// The profiler sets the flag and then visits all heaps. A thread that has a new heap publishes it
// and then looks at the flag. Each executes a full fence between the two steps, so the thread finds
// the flag set, or the profiler finds the heap. A thread that starts writes to no word that others
// read: the fence costs less than the flag's line would. Whether a heap takes part, as
// profile/heaps.h says, is changed only under the profiler's lock.
// Invariant: while the flag is set and the lock is free, every published heap takes part, or its
// thread is about to take the lock; while it is clear, none does.
// Thread-safety: any thread; `set` and `clear` with the lock held.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "platform/fence.h"

namespace near::profile {

// It has cache lines of its own: every slow path of malloc reads it.
class alignas(128) RunningFlag {
 public:
  // relaxed: a hint; what depends on it is under the lock
  NEAR_INLINE bool is_set() const { return word_.load(kRelaxed) != 0; }

  void set() {
    word_.store(1, kRelaxed);  // relaxed: the fence orders it
    light_fence(false);        // pairs: new-heap-counts
  }
  void clear() { word_.store(0, kRelaxed); }  // relaxed: the lock orders it

  // Called by the thread of a heap that has just been published.
  bool look_after_publishing() {
    light_fence(false);  // pairs: new-heap-counts
    return is_set();
  }

 private:
  Atomic<uint32_t> word_{0};
};

}  // namespace near::profile

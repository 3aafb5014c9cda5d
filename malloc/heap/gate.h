// The gate of data that one thread, the owner, uses all the time and the purge thread seldom: the
// owner passes for two stores and a load, the purge thread for a heavy fence.
//
// Invariant: the owner and the purge thread are not inside at once. Owner: inside = true, light
// fence, look whether the gate is closed; purge thread: closed = true, heavy fence, look whether
// the owner is inside. Neither waits: the owner does without the data, the purge thread comes again
// in its next round. A purge thread with many gates closes them all and executes one fence.
// Thread-safety: `enter` and `leave` the owner; the rest one other thread at a time. [Dice01]
#pragma once

#include "base/atomic.h"
#include "base/compiler.h"
#include "platform/fence.h"

namespace near {

class Gate {
 public:
  // False if the gate is closed, or if the caller is a signal handler that interrupted the owner
  // inside.
  NEAR_INLINE bool enter() {
    if (unlikely(inside_.load(kRelaxed))) return false;  // relaxed: only the owner writes it
    inside_.store(true, kRelaxed);                       // relaxed: the fence orders it
    light_fence(true);
    if (likely(!closed_.load(kAcquire))) return true;  // pairs: gate
    leave();
    return false;
  }
  NEAR_INLINE void leave() { inside_.store(false, kRelease); }  // pairs: gate

  // Between `close` and the first look the caller executes a heavy fence.
  void close() { closed_.store(true, kRelaxed); }                  // relaxed: the fence orders it
  bool is_closed() const { return closed_.load(kRelaxed); }        // relaxed: the caller closed it
  bool is_owner_inside() const { return inside_.load(kAcquire); }  // pairs: gate
  void open() { closed_.store(false, kRelease); }                  // pairs: gate

  // For the child of a fork, in which neither the owner nor the purge thread exists.
  void reset() {
    inside_.store(false, kRelaxed);  // relaxed: one thread
    closed_.store(false, kRelaxed);  // relaxed: one thread
  }

 private:
  Atomic<bool> inside_{false};
  Atomic<bool> closed_{false};
};

}  // namespace near

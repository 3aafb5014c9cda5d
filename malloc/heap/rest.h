// When the free pages inside the spans of a heap at rest are given back: once its owner took no
// slow path for `decay_ms`, and freed something since the last time.
//
// The pages of an active heap are left alone, since to need one again costs a page fault (about
// 1 us). A heap that wakes up from time to time is limited by `kPagesPerMs`: what it may have to
// fault in again takes at most a thirtieth of the time.
// Invariant: the owner's free that follows the last sweep, and takes a slow path, leaves the mark
// set, and the purge thread does not sleep for ever while one is.
// Thread-safety: `mark`: the owner, lock held; the rest: any thread, in effect the purge thread.
// docs/decisions/0024-heaps-at-rest.md
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "node/purge_signal.h"
#include "platform/clock.h"

namespace near {

class Rest {
 public:
  // Called when the number of free blocks of a cold span passed an event.
  void mark() { mark_.set(purge_signal); }

  // True if free pages may wait. Asked before `is_due`.
  bool waits() const { return mark_.is_set(); }

  // Called once a round. `activity`: the owner's slow paths so far. True if it is time to look.
  bool is_due(uint64_t activity, uint64_t now_ms, uint64_t decay_ms) {
    // relaxed: hints of one thread
    if (activity_.exchange(activity, kRelaxed) != activity) since_ms_.store(now_ms, kRelaxed);
    return waits() && is_old(now_ms, since_ms_.load(kRelaxed), decay_ms) &&  // relaxed: as above
           now_ms >= not_before_ms_.load(kRelaxed);                          // relaxed: as above
  }

  // Called before and after all cold spans are looked at, each under the lock of the heap.
  void begin() { mark_.clear(); }
  void end(uint64_t now_ms, uint64_t pages) {
    not_before_ms_.store(now_ms + pages / kPagesPerMs, kRelaxed);  // relaxed: a hint of one thread
  }

 private:
  static constexpr uint64_t kPagesPerMs = 32;

  PurgeMark mark_;
  Atomic<uint64_t> activity_{0};
  Atomic<uint64_t> since_ms_{0};       // when `activity_` last changed
  Atomic<uint64_t> not_before_ms_{0};  // when the next sweep may be
};

}  // namespace near

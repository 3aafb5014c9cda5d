// Hyaline: how much is in flight, and how a barrier waits until what was sent before it has landed.
//
//   send   inside the sender's lock, before the batch is on any list: read the phase, count there
//   land   inside the receiver's lock, after the objects are in its limbo: count down, there
//   wait   until nothing of the other phase is in flight; begin the next phase; until nothing of
//          the one before is
// Invariant: objects_[p] is what is in flight of the phases with p modulo 2. A barrier has claimed
// each record's lock before it waits: what was retired before is in its own limbo, or was counted.
// It then sees each of the two counts at 0 once, so each batch that was counted has landed. A
// batch that is counted later may be in either count, so no value of the phase is needed for that.
// The phase makes the wait end: senders that see the new phase no longer add to the older count.
// Thread-safety: any thread; each function says which lock it requires.
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"

namespace near::reclaim::impl {

class FlightCounts {
 public:
  // Requires the sender's lock. Returns the phase, for `land`.
  uint64_t send(uint64_t objects, uint64_t bytes) {
    const uint64_t phase = phase_.load(kRelaxed);  // relaxed: a barrier waits for either
    bytes_.fetch_add(bytes, kRelaxed);             // relaxed: a counter
    // relaxed: ordered by the sender's lock
    objects_[phase % 2].fetch_add(objects, kRelaxed);
    return phase;
  }

  // Requires the receiver's lock.
  void land(uint64_t phase, uint64_t objects, uint64_t bytes) {
    bytes_.fetch_sub(bytes, kRelaxed);                 // relaxed: a counter
    objects_[phase % 2].fetch_sub(objects, kRelease);  // pairs: flights
  }

  // Calls help() while something is in flight. Requires the mutex of barriers, and that the caller
  // has claimed each record's lock since it got the mutex.
  template <class Help>
  void wait(Help help) {
    const uint64_t phase = phase_.load(kRelaxed);  // relaxed: the mutex orders it
    wait_for(phase + 1, help);
    phase_.store(phase + 1, kRelaxed);  // relaxed: a sender may read it late
    wait_for(phase, help);
  }

  // relaxed: counters for statistics
  uint64_t objects() const { return objects_[0].load(kRelaxed) + objects_[1].load(kRelaxed); }
  uint64_t bytes() const { return bytes_.load(kRelaxed); }  // relaxed: the same

  // For the child of a fork. relaxed: one thread
  void forget() {
    for (Atomic<uint64_t>& each : objects_) each.store(0, kRelaxed);  // relaxed: the same
    bytes_.store(0, kRelaxed);                                        // relaxed: the same
  }

 private:
  template <class Help>
  void wait_for(uint64_t phase, Help help) {
    while (objects_[phase % 2].load(kAcquire) != 0) help();  // pairs: flights
  }

  // Written for each batch, so apart from what lies beside it.
  alignas(128) Atomic<uint64_t> objects_[2] = {0, 0};
  Atomic<uint64_t> bytes_{0};
  alignas(128) Atomic<uint64_t> phase_{0};
};

}  // namespace near::reclaim::impl

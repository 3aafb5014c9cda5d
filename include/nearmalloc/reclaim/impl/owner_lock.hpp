// The lock of a limbo: its owner takes it at every retirement, for the price of two stores and a
// load; other threads take it rarely, at the price of a heavy fence.
//
//   inside   0: no; odd: the owner is inside; even: a deleter runs inside, which may enter again
// Invariant: at most one of owner and claimer is inside. Owner: inside = 1, light fence, look for a
// claim; claimer: claimed = 1, heavy fence, wait until the owner is not inside. A claimer of many
// locks begins all claims, fences once, and enters those whose owner is not inside.
// Thread-safety: the owner calls `enter` and `leave`, the function that runs its deleters `open`
// and `close`. One other thread at a time calls `claim` and `release`, under the domain's mutex.
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/fail.hpp"
#include "nearmalloc/reclaim/impl/fence.hpp"

namespace near::reclaim::impl {

class OwnerLock {
 public:
  void enter(bool asymmetric) {
    // relaxed: only the owner writes
    const uint32_t depth = inside_.load(kRelaxed);
    if (depth > 0) [[unlikely]]
      return enter_again(depth);
    for (;;) {
      inside_.store(1, kRelaxed);  // relaxed: the fence orders it
      light_fence(asymmetric);
      // pairs: owner-lock
      if (claimed_.load(kAcquire) == 0) [[likely]]
        return;
      inside_.store(0, kRelease);                    // pairs: owner-lock
      while (claimed_.load(kRelaxed) != 0) yield();  // relaxed: looked at again above
    }
  }

  void leave() {
    // relaxed: only the owner writes
    inside_.store(inside_.load(kRelaxed) - 1, kRelease);  // pairs: owner-lock
  }

  // Called before and after a deleter runs.
  void open() { inside_.store(inside_.load(kRelaxed) + 1, kRelaxed); }   // relaxed: it is inside
  void close() { inside_.store(inside_.load(kRelaxed) - 1, kRelaxed); }  // relaxed: it is inside

  void claim(bool asymmetric) {
    begin_claim();
    heavy_fence(asymmetric);
    while (is_owner_inside()) yield();
  }

  // The two halves of a claim that does not wait; between them the caller executes a heavy fence.
  // If the owner is inside, the caller may not enter, but still has to release the claim.
  void begin_claim() { claimed_.store(1, kRelaxed); }  // relaxed: the fence orders it
  bool is_owner_inside() const { return inside_.load(kAcquire) != 0; }  // pairs: owner-lock

  // For a thread that took over the record after its owner left: whether a claim came before that.
  bool is_claimed(bool asymmetric) const {
    light_fence(asymmetric);
    return claimed_.load(kAcquire) != 0;  // pairs: owner-lock
  }

  void release() { claimed_.store(0, kRelease); }  // pairs: owner-lock

  // For the child of a fork: whether the owner was inside at the fork. relaxed: one thread
  bool was_inside() const { return inside_.load(kRelaxed) != 0; }
  // For the child of a fork, and for the thread that may claim. relaxed: its own, or one thread
  bool was_claimed() const { return claimed_.load(kRelaxed) != 0; }
  void forget_claim() { claimed_.store(0, kRelaxed); }  // relaxed: one thread
  void reset() {
    inside_.store(0, kRelaxed);   // relaxed: one thread
    claimed_.store(0, kRelaxed);  // relaxed: one thread
  }

 private:
  void enter_again(uint32_t depth) {
    if (depth % 2 != 0) fail_with("a signal handler retires inside a retirement");
    inside_.store(depth + 1, kRelaxed);  // relaxed: it is inside already
  }

  Atomic<uint32_t> inside_{0};
  Atomic<uint32_t> claimed_{0};
};

}  // namespace near::reclaim::impl

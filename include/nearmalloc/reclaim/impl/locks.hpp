// The locks of the trees' nodes: at most 4 bytes, no owner, not recursive.
//
// waiting_lock: 0 free, 1 held, 2 held and some thread may sleep. A waiter spins for about a
// microsecond and then sleeps in the kernel, so that it burns no processor time while the holder is
// preempted. spin_lock never sleeps: with more threads than processors, all waiters may spin for
// whole time slices while the holder does not run. It is here for comparison.
// Invariant: at most one thread is between lock() and unlock(). A sleeping thread is woken, as the
// state is 2 whenever some thread may sleep.
// Thread-safety: any thread. The memory may be freed as soon as unlock() has released the lock: the
// wake that follows uses only the address. If that was reused for another lock, a thread that
// sleeps there at most wakes once too often.
// [Drepper11, mutex 3]
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"

namespace near::reclaim {

class waiting_lock {
 public:
  void lock() noexcept {
    if (!try_lock()) lock_slow();
  }

  bool try_lock() noexcept {
    uint32_t expected = 0;
    // pairs: waiting-lock
    return state_.compare_exchange_strong(expected, 1, kAcquire, kRelaxed);
  }

  void unlock() noexcept {
    // pairs: waiting-lock
    if (state_.exchange(0, kRelease) == 2) wake_one();
  }

 private:
  void lock_slow() noexcept;
  void wake_one() noexcept;

  Atomic<uint32_t> state_{0};
};

class spin_lock {
 public:
  void lock() noexcept {
    if (!try_lock()) lock_slow();
  }

  bool try_lock() noexcept {
    return !held_.exchange(true, kAcquire);  // pairs: spin-lock
  }

  void unlock() noexcept { held_.store(false, kRelease); }  // pairs: spin-lock

 private:
  void lock_slow() noexcept;

  Atomic<bool> held_{false};
};

static_assert(kModel || (sizeof(waiting_lock) == 4 && sizeof(spin_lock) <= 4));

namespace impl {

// Executes one turn of a wait that is expected to be short.
void pause() noexcept;

}  // namespace impl
}  // namespace near::reclaim

// A small mutex with a rank. Locks are taken from the highest rank to the lowest; the check build
// asserts this.
//
// State: 0 free, 1 held, 2 held and a thread may sleep. [Drepper, "Futexes are tricky", mutex 3]
// Invariant: a thread that holds a lock, or is about to take one, is inside (sync/inside.h), so a
// fork in its signal handler takes no locks. While a thread holds all locks for fork, its own lock
// calls have no effect, so that the program's fork handlers can allocate.
// Thread-safety: any thread. A holder may fork: in the child it is the only thread, and it unlocks.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "sync/inside.h"
#include "sync/tsan.h"

namespace near {

// The ranks of all locks of the allocator: a thread that holds a lock may wait only for lower ones;
// try_lock may take any, because it never waits.
// (Only the check build keeps a lock's rank, so that in others tables of locks are all zero.)
enum class Rank : uint8_t {
  node,
  windows,
  growing,
  regions,
  numbers,
  registry,
  heap,
  profile,
  purge_thread,
  start
};

class Mutex {
 public:
#if NEAR_CHECK
  constexpr explicit Mutex(Rank rank) : rank_(rank) {}
#else
  constexpr explicit Mutex(Rank) {}
#endif
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() {
    if (unlikely(go_inside())) return;
    record_lock();
    uint32_t expected = 0;
    // pairs: mutex
    if (unlikely(!state_.compare_exchange_strong(expected, 1, kAcquire, kRelaxed))) lock_slow();
    tell_taken();
  }

  bool try_lock() {
    if (unlikely(go_inside())) return true;
    uint32_t expected = 0;
    // pairs: mutex
    if (!state_.compare_exchange_strong(expected, 1, kAcquire, kRelaxed)) {
      go_outside();
      return false;
    }
    record_try_lock();
    tell_taken();
    return true;
  }

  void unlock() {
    if (unlikely(holds_all())) return go_outside();
    record_unlock();
    tell_given();
    if (unlikely(state_.exchange(0, kRelease) == 2)) wake_one();  // pairs: mutex
    go_outside();
  }

  // A hint; exact in a hardware transaction, because that fails when the answer changes.
  bool is_held() const { return state_.load(kRelaxed) != 0; }  // relaxed: the hardware orders it

  // Does not check ranks: fork takes all locks in a fixed order. The forking thread is inside
  // already.
  void lock_for_fork() {
    uint32_t expected = 0;
    // pairs: mutex
    if (!state_.compare_exchange_strong(expected, 1, kAcquire, kRelaxed)) lock_slow();
  }
  void unlock_for_fork() {
    if (state_.exchange(0, kRelease) == 2) wake_one();  // pairs: mutex
  }

 private:
  NEAR_COLD void lock_slow();
  NEAR_COLD void wake_one();
#if NEAR_CHECK
  void record_lock();
  void record_try_lock();
  void record_unlock();
#else
  void record_lock() {}
  void record_try_lock() {}
  void record_unlock() {}
#endif

  Atomic<uint32_t> state_{0};
#if NEAR_CHECK
  const Rank rank_;
#endif
};

class LockGuard {
 public:
  explicit LockGuard(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~LockGuard() { mutex_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace near

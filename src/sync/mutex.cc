#include "sync/mutex.h"

#include "base/assert.h"
#include "platform/futex.h"

namespace near {
namespace {

// A critical section is some hundred cycles; sleeping costs thousands. In a model a spin is only a
// later start.
constexpr int kSpins = kModel ? 1 : 100;

#if NEAR_CHECK
// Bit r: this thread holds a lock of rank r.
thread_local uint32_t held_ranks NEAR_TLS_INITIAL_EXEC = 0;
#endif

}  // namespace

void Mutex::lock_slow() {
  for (int i = 0; i < kSpins; i++) {
    cpu_relax();
    uint32_t expected = 0;
    if (state_.load(kRelaxed) == 0 &&  // relaxed: only a hint, the exchange decides
        state_.compare_exchange_weak(expected, 1, kAcquire, kRelaxed)) {  // pairs: mutex
      return;
    }
  }
  while (state_.exchange(2, kAcquire) != 0) futex_wait(state_, 2);  // pairs: mutex
}

void Mutex::wake_one() { futex_wake(state_, 1); }

#if NEAR_CHECK
void Mutex::note_lock() {
  const auto rank = static_cast<unsigned>(rank_);
  NEAR_ASSERT(held_ranks >> rank == 0);
  held_ranks |= 1U << rank;
}

void Mutex::note_try_lock() { held_ranks |= 1U << static_cast<unsigned>(rank_); }

void Mutex::note_unlock() {
  const uint32_t bit = 1U << static_cast<unsigned>(rank_);
  NEAR_ASSERT((held_ranks & bit) != 0);
  held_ranks &= ~bit;
}
#endif

}  // namespace near

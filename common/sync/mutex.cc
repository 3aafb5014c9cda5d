#include "sync/mutex.h"

#include "base/assert.h"
#include "platform/futex.h"

namespace near {
namespace {

// A critical section takes some hundred cycles; sleeping costs thousands. In a model, spinning only
// delays the thread.
constexpr int kSpins = kModel ? 1 : 100;

#if NEAR_CHECK
// How many locks of each rank this thread holds; more than one only if try_lock took them.
constexpr unsigned kRanks = static_cast<unsigned>(Rank::start) + 1;
thread_local uint8_t held[kRanks] NEAR_TLS_INITIAL_EXEC = {};
#endif

}  // namespace

__thread uint8_t inside_depth NEAR_TLS_INITIAL_EXEC = 0;
Atomic<bool> is_new_child{false};
__thread bool is_unknown_to_tsan NEAR_TLS_INITIAL_EXEC = false;
void (*repair_child)() = nullptr;

void end_left_alone() {
  go_inside();
  repair_child();
  inside_depth &= static_cast<uint8_t>(~kLeftAlone);
  go_outside();
}

// A thread that is left alone does not wait: the lock is its own, or the holder is not in the child
// and will never release it.
void Mutex::lock_slow() {
  if (is_left_alone()) return;
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
void Mutex::record_lock() {
  for (unsigned rank = 0; rank <= static_cast<unsigned>(rank_); rank++)
    NEAR_ASSERT(held[rank] == 0);
  record_try_lock();
}

void Mutex::record_try_lock() { held[static_cast<unsigned>(rank_)]++; }

void Mutex::record_unlock() {
  NEAR_ASSERT(held[static_cast<unsigned>(rank_)] > 0);
  held[static_cast<unsigned>(rank_)]--;
}
#endif

}  // namespace near

#include "nearmalloc/reclaim/impl/locks.hpp"

#include "base/atomic.h"
#include "base/compiler.h"
#include "platform/futex.h"

namespace near::reclaim {
namespace {

// A critical section of a tree takes some hundred cycles; a sleep costs thousands.
constexpr int kSpins = 100;

}  // namespace

void waiting_lock::lock_slow() noexcept {
  for (int i = 0; i < kSpins; i++) {
    cpu_relax();
    // relaxed: only a hint, the exchange decides
    if (state_.load(kRelaxed) == 0 && try_lock()) return;
  }
  while (state_.exchange(2, kAcquire) != 0) futex_wait(state_, 2);  // pairs: waiting-lock
}

void waiting_lock::wake_one() noexcept { futex_wake(state_, 1); }

void spin_lock::lock_slow() noexcept {
  do {
    while (held_.load(kRelaxed)) cpu_relax();  // relaxed: only a hint, the exchange decides
  } while (!try_lock());
}

namespace impl {

void pause() noexcept { cpu_relax(); }

}  // namespace impl
}  // namespace near::reclaim

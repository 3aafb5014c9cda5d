#include "designs/super/section.h"

namespace near::design::super {
namespace {

constexpr int kTries = 10;
constexpr int kSpins = 100;

constinit Atomic<uint64_t> given_up{0};

}  // namespace

uint64_t transactions_given_up() { return given_up.load(kRelaxed); }  // relaxed: a statistic

NEAR_COLD bool begin_transaction(const Mutex& mutex) {
  // The lock is prefetched, because a miss inside makes the transaction longer.
  __builtin_prefetch(&mutex, 1);
  for (int i = 0; i < kTries; i++) {
    // A transaction would fail while the lock is held.
    for (int spin = 0; spin < kSpins && mutex.is_held(); spin++) cpu_relax();
    if (!transaction::begin()) continue;
    if (!mutex.is_held()) return true;
    transaction::abandon();
  }
  given_up.fetch_add(1, kRelaxed);  // relaxed: a statistic
  return false;
}

}  // namespace near::design::super

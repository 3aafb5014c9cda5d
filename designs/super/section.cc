#include "designs/super/section.h"

namespace near::super {
namespace {

constexpr int kTries = 10;

}  // namespace

NEAR_COLD bool begin_transaction(const Mutex& mutex) {
  // What is surely touched is fetched before: a miss inside makes the transaction longer.
  __builtin_prefetch(&mutex, 1);
  for (int i = 0; i < kTries; i++) {
    if (!transaction::begin()) continue;
    if (!mutex.is_held()) return true;
    transaction::abandon();
  }
  return false;
}

}  // namespace near::super

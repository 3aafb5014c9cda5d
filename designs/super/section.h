// A critical section on a lock. It runs as a hardware transaction that watches the lock from its
// start (early subscription), or else under the lock. [Kuszmaul15 §4]
// Invariant: a transaction commits only if no thread held the lock meanwhile.
// Thread-safety: any thread; sections nest in the order of their locks' ranks.
#pragma once

#include "base/compiler.h"
#include "designs/super/settings.h"
#include "designs/super/transaction.h"
#include "sync/mutex.h"

namespace near::design::super {

// True if a transaction has begun; it fails as soon as a thread takes the lock.
NEAR_COLD bool begin_transaction(const Mutex& mutex);

// How many sections took the lock after all tries.
uint64_t transactions_given_up();

class Section {
 public:
  explicit Section(Mutex& mutex) : mutex_(mutex) {
    if (unlikely(settings.transactions) && begin_transaction(mutex)) {
      in_transaction_ = true;
      return;
    }
    mutex_.lock();
  }
  ~Section() {
    if (unlikely(in_transaction_)) {
      transaction::commit();
    } else {
      mutex_.unlock();
    }
  }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

 private:
  Mutex& mutex_;
  bool in_transaction_ = false;
};

}  // namespace near::design::super

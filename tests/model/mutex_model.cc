// Model of sync/mutex.{h,cc} on a futex that waits and wakes as the kernel's does.
//
// Invariants: one holder at a time, which sees what the last one wrote; no thread waits while the
// mutex is free (a lost wake-up would be a deadlock); try_lock takes only a free mutex.
// Bound: 3 threads, 2 critical sections each, one spin before a thread sleeps.
#include "runner.h"
#include "sync/mutex.h"

namespace near::model {
namespace {

class Exclusion : public rl::test_suite<Exclusion, 3> {
 public:
  void before() { sections_ = 0; }

  void thread(unsigned index) {
    if (index == 2) {
      lock_as_fork_does();
      try_to_lock();
      return;
    }
    for (int i = 0; i < 2; i++) {
      const LockGuard guard(mutex_);
      visit();
    }
  }

  void after() { expect(sections_ == 5 + tried_, "a critical section was lost"); }

 private:
  void visit() { sections_ = sections_ + 1; }

  void lock_as_fork_does() {
    mutex_.lock_for_fork();
    visit();
    mutex_.unlock_for_fork();
  }

  void try_to_lock() {
    if (!mutex_.try_lock() && !mutated("try_lock's answer is ignored")) return;
    visit();
    tried_ = 1;
    mutex_.unlock();
  }

  Mutex mutex_{Rank::heap};
  Plain<uint32_t> sections_;
  uint32_t tried_ = 0;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Exclusion>("exclusion", Bounded{2}),
    explore<Exclusion>("exclusion", Random{2'000'000}),
};

const std::vector<Mutation> kMutations = {
    {"unlock does not release", "mutex.h", "::unlock()", kRelease, kRelaxed},
    {"unlock_for_fork does not release", "mutex.h", "::unlock_for_fork", kRelease, kRelaxed},
    {"lock does not acquire", "mutex.h", "::lock()", kAcquire, kRelaxed},
    {"lock_for_fork does not acquire", "mutex.h", "::lock_for_fork", kAcquire, kRelaxed},
    {"try_lock does not acquire", "mutex.h", "::try_lock", kAcquire, kRelaxed},
    {"a lock taken late does not acquire", "mutex.cc", "::lock_slow", kAcquire, kRelaxed},
    {"nobody is woken"},
    {"the kernel does not look before it sleeps"},
    {"try_lock's answer is ignored"},
};

}  // namespace near::model

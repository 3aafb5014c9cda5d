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
}  // namespace near::model

int main(int count, char** arguments) {
  using namespace near::model;
  const Exploration explorations[] = {
      explore<Exclusion>("exclusion", Bounded{2}),
      explore<Exclusion>("exclusion", Random{2'000'000}),
  };
  const near::Mutation mutations[] = {
      {"unlock does not release", "mutex.h", "::unlock()", rl::mo_release, rl::mo_relaxed},
      {"unlock_for_fork does not release", "mutex.h", "::unlock_for_fork", rl::mo_release,
       rl::mo_relaxed},
      {"lock does not acquire", "mutex.h", "::lock()", rl::mo_acquire, rl::mo_relaxed},
      {"lock_for_fork does not acquire", "mutex.h", "::lock_for_fork", rl::mo_acquire,
       rl::mo_relaxed},
      {"try_lock does not acquire", "mutex.h", "::try_lock", rl::mo_acquire, rl::mo_relaxed},
      {"a lock taken late does not acquire", "mutex.cc", "::lock_slow", rl::mo_acquire,
       rl::mo_relaxed},
      {"nobody is woken"},
      {"the kernel does not look before it sleeps"},
      {"try_lock's answer is ignored"},
  };
  return run_models(count, arguments, explorations, mutations);
}

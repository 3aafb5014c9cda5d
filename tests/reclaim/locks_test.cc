// The locks of the trees' nodes: exclusion, and what waiting costs while a holder sleeps.
#include "nearmalloc/reclaim/impl/locks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <thread>

#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using near::reclaim::spin_lock;
using near::reclaim::waiting_lock;

template <class Lock>
class ReclaimLocks : public testing::Test {};
using AllLocks = testing::Types<waiting_lock, spin_lock>;
TYPED_TEST_SUITE(ReclaimLocks, AllLocks);

TYPED_TEST(ReclaimLocks, OneAtATime) {
  TypeParam lock;
  size_t shared = 0;
  const size_t rounds = scaled(50'000);
  run_threads(4, [&](size_t) {
    for (size_t i = 0; i < rounds; i++) {
      const std::lock_guard locked(lock);
      shared++;
    }
  });
  EXPECT_EQ(shared, 4 * rounds);
  count_cases(shared);
}

TYPED_TEST(ReclaimLocks, TryingDoesNotWait) {
  TypeParam lock;
  ASSERT_TRUE(lock.try_lock());
  std::thread([&] { EXPECT_FALSE(lock.try_lock()); }).join();
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
  count_cases(3);
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Processor time of the process while 16 threads wait for a holder that sleeps `seconds`, or longer
// until the cost is `enough`.
template <class Lock>
double cost_of_waiting(double seconds, double enough = 0) {
  Lock lock;
  lock.lock();
  std::atomic<int> begun{0};
  int entered = 0;
  Threads waiters(16, [&](size_t) {
    begun++;
    const std::lock_guard locked(lock);
    entered++;
  });
  while (begun < 16) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // by now they wait
  const double before = processor_seconds();
  double cost = 0;
  for (int tries = 0; tries == 0 || (cost < enough && tries < 100); tries++) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    cost = processor_seconds() - before;
  }
  EXPECT_EQ(entered, 0);
  lock.unlock();
  waiters.join();
  EXPECT_EQ(entered, 16);
  return cost;
}

TEST(ReclaimWaitingLock, AHolderThatSleepsCostsItsWaitersNoTime) {
  EXPECT_LT(cost_of_waiting<waiting_lock>(0.3), 0.03);
  count_cases(16);
}

// The control: the published lock burns every processor it gets, so the test above can fail.
TEST(ReclaimSpinLock, AHolderThatSleepsIsWaitedForAtFullSpeed) {
  EXPECT_GT(cost_of_waiting<spin_lock>(0.3, 0.07), 0.06);
  count_cases(16);
}

}  // namespace
}  // namespace near_test

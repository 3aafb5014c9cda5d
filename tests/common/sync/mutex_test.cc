// The mutex: exclusion under contention, sleeping and waking, ranks.
#include "sync/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using near::LockGuard;
using near::Mutex;
using near::Rank;

TEST(Mutex, OneAtATime) {
  Mutex mutex(Rank::node);
  size_t shared = 0;
  const size_t rounds = scaled(50'000);
  run_threads(4, [&](size_t) {
    for (size_t i = 0; i < rounds; i++) {
      const LockGuard guard(mutex);
      shared++;
    }
  });
  EXPECT_EQ(shared, 4 * rounds);
  count_cases(shared);
}

TEST(Mutex, SleepersAreWoken) {
  Mutex mutex(Rank::node);
  int entered = 0;
  mutex.lock();
  Threads threads(8, [&](size_t) {
    const LockGuard guard(mutex);
    entered++;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // all threads sleep by now
  EXPECT_EQ(entered, 0);
  mutex.unlock();
  threads.join();
  EXPECT_EQ(entered, 8);
  count_cases(8);
}

TEST(Mutex, TryingDoesNotWait) {
  Mutex mutex(Rank::node);
  ASSERT_TRUE(mutex.try_lock());
  std::thread([&] { EXPECT_FALSE(mutex.try_lock()); }).join();
  mutex.unlock();
  std::thread([&] {
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
  }).join();
  count_cases(3);
}

TEST(Mutex, ForkTakesAndGivesItRegardlessOfRanks) {
  Mutex high(Rank::node);
  Mutex low(Rank::start);
  high.lock_for_fork();
  low.lock_for_fork();
  std::thread waiter([&] {
    const LockGuard guard(high);
    count_cases();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  low.unlock_for_fork();
  high.unlock_for_fork();
  waiter.join();
  const LockGuard guard(low);
}

// A heap that adopts holds its own lock and tries a lock of the same rank, of another heap.
TEST(Mutex, TwoOfOneRankMayBeHeldIfTheSecondWasTried) {
  Mutex own(Rank::heap);
  Mutex other(Rank::heap);
  Mutex registry(Rank::registry);
  {
    const LockGuard guard(own);
    {
      const LockGuard inner(registry);
      ASSERT_TRUE(other.try_lock());
    }
    other.unlock();
    const LockGuard inner(registry);
  }
  const LockGuard again(own);
  count_cases();
}

TEST(MutexDeathTest, RanksDescend) {
  if (!near::kCheckBuild) GTEST_SKIP() << "ranks are asserted in the check build";
  constexpr Rank kAll[] = {Rank::start,    Rank::purge_thread, Rank::heap,
                           Rank::registry, Rank::regions,      Rank::node};
  for (const Rank first : kAll) {
    for (const Rank second : kAll) {
      Mutex held(first);
      Mutex wanted(second);
      const auto both = [&] {
        const LockGuard outer(held);
        const LockGuard inner(wanted);
      };
      if (second < first) {
        both();
      } else {
        EXPECT_DEATH(both(), "assertion");
      }
      count_cases();
    }
  }
}

TEST(MutexDeathTest, TheFirstOfTwoEqualRanksIsStillAccountedFor) {
  if (!near::kCheckBuild) GTEST_SKIP() << "ranks are asserted in the check build";
  Mutex own(Rank::heap);
  Mutex other(Rank::heap);
  Mutex higher(Rank::start);
  const auto wrong = [&] {
    const LockGuard guard(own);
    if (other.try_lock()) other.unlock();
    const LockGuard inner(higher);
  };
  EXPECT_DEATH(wrong(), "assertion");
  count_cases();
}

}  // namespace
}  // namespace near_test

// std26 when memory is refused: what is retired is destroyed once, however little memory there is.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "every_scheme.h"
#include "nearmalloc/reclaim/std26.hpp"
#include "refused_memory.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

namespace safe = near::reclaim::std26;

struct Node : CountedObject, safe::hazard_pointer_obj_base<Node> {};
struct Entry : CountedObject, safe::rcu_obj_base<Entry> {};

class Std26Fault : public testing::Test {
 protected:
  Std26Fault() {
    live_objects = 0;
    count_cases();
  }
};

// Also by a thread for which there is no memory at all.
TEST_F(Std26Fault, EntriesWaitForTheBarrier) {
  for (const bool barrier_has_memory : {true, false}) {
    const auto retire_without_memory = [] {
      const Refusing refusing(0);
      for (int i = 0; i < 1000; i++) (new Entry)->retire();
      EXPECT_GT(refusals(), 0u);
    };
    safe::rcu_barrier();
    std::thread(retire_without_memory).join();
    retire_without_memory();
    EXPECT_GT(live_objects, 900);
    {
      const Refusing refusing(barrier_has_memory ? Refusing::kNever : 0);
      safe::rcu_barrier();
    }
    EXPECT_EQ(live_objects, 0);
    count_cases();
  }
}

TEST_F(Std26Fault, EntriesThatWereSetAsideWaitForReaders) {
  safe::rcu_default_domain().lock();
  auto* entry = new Entry;
  std::thread([entry] {
    const Refusing refusing(0);
    entry->retire();
  }).join();
  std::thread([] {
    for (int i = 0; i < 20'000; i++) (new Entry)->retire();
  }).join();
  EXPECT_TRUE(entry->is_alive());
  safe::rcu_default_domain().unlock();
  safe::rcu_barrier();
  EXPECT_EQ(live_objects, 0);
}

TEST_F(Std26Fault, NodesThatWereSetAsideWaitForTheirHolder) {
  const auto retire_many = [] {
    for (int i = 0; i < 4000; i++) (new Node)->retire();
  };
  std::atomic<Node*> source{new Node};
  safe::hazard_pointer holder = safe::make_hazard_pointer();
  const Node* node = holder.protect(source);
  std::thread([&] {
    const Refusing refusing(0);
    source.exchange(nullptr)->retire();
  }).join();
  std::thread(retire_many).join();
  EXPECT_TRUE(node->is_alive());
  holder.reset_protection();
  near::reclaim::impl::std26_hazards().barrier();
  EXPECT_EQ(live_objects, 0);
}

// What may throw does, and then has done nothing.
TEST_F(Std26Fault, SomeFunctionsThrow) {
  std::thread([] {
    std::vector<safe::hazard_pointer> holders;
    const Refusing refusing(0);
    const auto make_many = [&] {
      for (int i = 0; i < 100; i++) holders.push_back(safe::make_hazard_pointer());
    };
    EXPECT_THROW(make_many(), std::bad_alloc);
    CountedObject object;
    EXPECT_THROW(safe::rcu_retire(&object), std::bad_alloc);
    EXPECT_TRUE(object.is_alive());
  }).join();
  safe::rcu_barrier();
  EXPECT_EQ(live_objects, 0);
}

TEST(Std26FaultDeathTest, AThreadsFirstLockFindsNoMemory) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  count_cases();
  EXPECT_DEATH(
      {
        const Refusing refusing(0);
        safe::rcu_default_domain().lock();
      },
      "no memory for a thread's first rcu_domain::lock");
}

// Objects are set aside, moved to limbos and taken by barriers at the same time; none is lost.
TEST_F(Std26Fault, NothingIsLostAmongThreads) {
  const size_t rounds = scaled(3000);
  run_threads(4, [&](size_t number) {
    {
      const std::scoped_lock first(safe::rcu_default_domain());
    }
    for (size_t i = 0; i < rounds; i++) {
      if (number == 3 && i % 16 == 0) safe::rcu_barrier();
      const Refusing refusing(i % 3 == 0 ? 0 : Refusing::kNever);
      for (int k = 0; k < 30; k++) (new Entry)->retire();
      if (number == 3) continue;
      const std::scoped_lock reading(safe::rcu_default_domain());
      (new Entry)->retire();
    }
  });
  safe::rcu_barrier();
  EXPECT_EQ(live_objects, 0);
}

}  // namespace
}  // namespace near_test

// Objects of threads that retired and then wait, attached, are freed by the threads that go on,
// within the time that core.hpp states.
#include <atomic>
#include <cstddef>
#include <latch>
#include <thread>

#include "every_scheme.h"
#include "support/cases.h"
#include "support/parallel.h"
#include "support/pattern.h"

namespace near_test {
namespace {

using namespace near::reclaim;

template <class Scheme>
class HandoverTest : public testing::Test {
 protected:
  void SetUp() override { live_objects = 0; }
};
TYPED_TEST_SUITE(HandoverTest, EveryScheme);

// Threads that have retired objects and wait until the scope ends.
template <class Scheme>
class Waiting {
 public:
  Waiting(domain<Scheme>& domain, size_t threads, size_t objects)
      : retired_(static_cast<ptrdiff_t>(threads)), threads_(threads, [&, objects](size_t) {
          auto handle = domain.attach();
          for (size_t i = 0; i < objects; i++) handle.pin().retire(new CountedObject);
          retired_.count_down();
          end_.wait();
          handle.pin().retire(new CountedObject);  // it goes on as before
        }) {
    retired_.wait();
  }
  ~Waiting() { end_.count_down(); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::latch retired_;
  std::latch end_{1};
  Threads threads_;
};

TYPED_TEST(HandoverTest, WhatWaitingThreadsRetiredIsFreedByOneThatGoesOn) {
  constexpr size_t kThreads = 40;
  for (const size_t objects : {10u, 1000u, 3000u}) {
    domain<TypeParam> domain;
    {
      const Waiting waiting(domain, kThreads, objects);
      const uint64_t before = domain.collect().epochs;
      auto handle = domain.attach();
      for (int i = 0; i < 400'000 && live_objects > 0; i++) handle.pin().retire(new char);
      EXPECT_EQ(live_objects, 0) << objects << " objects each";
      // The stated time, then three epochs until the objects are safe, and one to free them.
      const uint64_t stated = 2 * impl::kIdleTime + kThreads / impl::kTakenAtOnce;
      EXPECT_LE(domain.collect().epochs - before, stated + 4);
    }
    domain.barrier();
    EXPECT_EQ(live_objects, 0);
    EXPECT_EQ(domain.collect().unreclaimed, 0u);
    count_cases();
  }
}

// Threads pause for so long that others take what they retired, and go on while others do.
TYPED_TEST(HandoverTest, ThreadsThatPauseAndGoOnLoseAndDoubleNothing) {
  options settings;
  settings.batch_size = 8;
  domain<TypeParam> domain(settings);
  const size_t rounds = scaled(300);
  run_threads(4, [&](unsigned number) {
    Random random(seed() + number);
    auto handle = domain.attach();
    for (size_t i = 0; i < rounds; i++) {
      for (size_t k = random.below(300); k > 0; k--) handle.pin().retire(new CountedObject);
      if (random.below(4) == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (random.below(4) == 0) std::this_thread::yield();
    }
  });
  domain.barrier();
  EXPECT_EQ(live_objects, 0);
  const statistics sums = domain.collect();
  EXPECT_EQ(sums.retired, sums.freed);
  EXPECT_EQ(sums.lost, 0u);
  count_cases(rounds);
}

// A reader that stalls in an operation does not lose what it holds to the threads that take over.
TYPED_TEST(HandoverTest, AnObjectThatAWaitingThreadRetiredOutlivesItsReaders) {
  domain<TypeParam> domain;
  std::atomic<CountedObject*> source{new CountedObject};
  auto reader = domain.attach();
  {
    auto guard = reader.pin();
    CountedObject* const held = guard.protect(0, source);
    std::latch end{1};
    std::latch retired{1};
    std::thread idle([&] {
      auto handle = domain.attach();
      handle.pin().retire(source.exchange(nullptr));
      retired.count_down();
      end.wait();
    });
    retired.wait();
    std::thread([&] {
      auto handle = domain.attach();
      for (int i = 0; i < 60'000; i++) handle.pin().retire(new char);
    }).join();
    EXPECT_EQ(live_objects, 1);
    EXPECT_NE(held, nullptr);
    end.count_down();
    idle.join();
  }
  domain.barrier();
  EXPECT_EQ(live_objects, 0);
  count_cases();
}

}  // namespace
}  // namespace near_test

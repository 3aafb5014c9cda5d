// Threads that use many domains without a handle: what they keep for domains that ended.
#include <gtest/gtest.h>
#include <malloc.h>

#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "every_scheme.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace near::reclaim;

// glibc's own count; elsewhere it is 0, and the test merely runs.
size_t bytes_in_use() { return mallinfo2().uordblks; }

TEST(Uses, AThreadKeepsNothingOfDomainsThatEnded) {
  const size_t domains = scaled(10'000);
  {
    domain<debra<>>().retire(new char);
  }
  const size_t before = bytes_in_use();
  for (size_t i = 0; i < domains; i++) {
    domain<debra<>> each;
    each.retire(new char);
    count_cases();
  }
  EXPECT_LT(bytes_in_use(), before + 4096);
}

TEST(Uses, AreAsManyAsDomainsThatLivedAtOnce) {
  constexpr size_t kAtOnce = 30;
  const auto use_some = [] {
    std::vector<std::unique_ptr<domain<debra<>>>> some;
    for (size_t i = 0; i < kAtOnce; i++) some.push_back(std::make_unique<domain<debra<>>>());
    for (int round = 0; round < 3; round++) {
      for (auto& each : some) each->retire(new char);
    }
    for (auto& each : some) EXPECT_EQ(each->collect().records, 1u);
  };
  use_some();
  const size_t before = bytes_in_use();
  for (int i = 0; i < 50; i++) {
    use_some();
    count_cases();
  }
  EXPECT_LT(bytes_in_use(), before + 4096);
}

// The end of a domain meets threads that look for other domains, and threads that end.
TEST(Uses, OfSeveralThreadsEndWithTheDomain) {
  live_objects = 0;
  constexpr int kThreads = 3;
  const auto rounds = static_cast<int>(scaled(300));
  domain<token<>> lasting;
  std::unique_ptr<domain<debra<>>> passing;
  std::barrier<> step(kThreads + 1);
  Threads threads(kThreads, [&](size_t) {
    for (int i = 0; i < rounds; i++) {
      step.arrive_and_wait();
      passing->retire(new CountedObject);
      std::thread([&] { passing->retire(new CountedObject); }).join();
      step.arrive_and_wait();
      domain<hazard_pointers> own;
      own.retire(new CountedObject);
      lasting.retire(new CountedObject);
    }
  });
  for (int i = 0; i < rounds; i++) {
    passing = std::make_unique<domain<debra<>>>();
    step.arrive_and_wait();
    step.arrive_and_wait();
    passing.reset();
    count_cases();
  }
  threads.join();
  lasting.barrier();
  EXPECT_EQ(live_objects, 0);
}

}  // namespace
}  // namespace near_test

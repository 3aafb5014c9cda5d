// near_check(): silent about a sound allocator, and loud about planted damage.
#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <atomic>
#include <thread>
#include <vector>

#include "front/front.h"
#include "node/memory.h"
#include "support/cases.h"
#include "support/parallel.h"
#include "support/pattern.h"

namespace near_test {
namespace {

TEST(Check, FindsDamageInTheOwnHeapAndInParkedOnes) {
  EXPECT_EQ(near_check(), 0u);
  std::vector<void*> mine;
  std::vector<void*> parked;
  const auto make = [](std::vector<void*>& blocks) {
    for (int i = 0; i < 5'000; i++) blocks.push_back(near_malloc(64));
    for (int i = 0; i < 500; i++) near_free(blocks[static_cast<size_t>(i)]);
    blocks.erase(blocks.begin(), blocks.begin() + 500);
  };
  make(mine);
  std::thread([&] { make(parked); }).join();
  EXPECT_EQ(near_check(), 0u);
  for (void* block : {mine[0], parked[0]}) {
    near::Span* span = near::span_of(block);
    ASSERT_FALSE(span->local.is_empty()) << "it should be cold, with free blocks";
    near::Block* good = span->local.pop();
    EXPECT_GT(near_check(), 0u);
    span->local.set(good->address());
    EXPECT_EQ(near_check(), 0u);
    count_cases();
  }
  for (void* block : mine) near_free(block);
  for (void* block : parked) near_free(block);
  EXPECT_EQ(near_check(), 0u);
}

TEST(Check, MayRunWhileOtherThreadsWork) {
  std::atomic<bool> stop{false};
  Threads threads(2, [&](unsigned t) {
    Random random(seed() + t);
    std::vector<void*> live(100);
    while (!stop.load()) {
      void*& place = live[random.below(live.size())];
      near_free(place);
      place = near_malloc(random.size_up_to(17));
    }
    for (void* each : live) near_free(each);
  });
  for (size_t i = 0; i < scaled(300); i++) {
    EXPECT_EQ(near_check(), 0u);
    count_cases();
  }
  stop = true;
  threads.join();
}

}  // namespace
}  // namespace near_test

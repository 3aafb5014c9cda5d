// count_live(): the live blocks of hot, cold and parked spans.
#include "inspect/live_blocks.h"

#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "front/front.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

std::unique_ptr<near::LiveBlocks> counted() {
  auto blocks = std::make_unique<near::LiveBlocks>();
  near::count_live(*blocks);
  return blocks;
}

uint64_t live_of(size_t size) { return counted()->classes[near::class_of(size)].live; }

// Small classes, and medium classes with spare blocks.
constexpr size_t kSizes[] = {16, 112, 1024, 2304, 20'480};

TEST(LiveBlocks, AreCountedInHotAndColdSpans) {
  for (const size_t size : kSizes) {
    const uint64_t before = live_of(size);
    std::vector<void*> blocks;
    for (uint64_t n = 1; n <= 3000; n++) {
      blocks.push_back(near_malloc(size));
      if (n % 500 == 1) {
        EXPECT_EQ(live_of(size), before + n) << size;
      }
    }
    for (uint64_t n = 3000; n-- > 0;) {
      near_free(blocks[n]);
      if (n % 500 == 1) {
        EXPECT_EQ(live_of(size), before + n) << size;
      }
    }
    EXPECT_EQ(live_of(size), before) << size;
    count_cases(12);
  }
}

TEST(LiveBlocks, ExcludeTheFreesOfOtherThreads) {
  for (const size_t size : kSizes) {
    const uint64_t before = live_of(size);
    std::vector<void*> blocks(2000);
    for (void*& block : blocks) block = near_malloc(size);
    std::thread([&] {
      for (size_t i = 0; i < blocks.size(); i += 2) near_free(blocks[i]);
      EXPECT_EQ(live_of(size), before + 1000) << size;
    }).join();
    EXPECT_EQ(live_of(size), before + 1000) << size;
    for (size_t i = 1; i < blocks.size(); i += 2) near_free(blocks[i]);
    EXPECT_EQ(live_of(size), before);
    count_cases(3);
  }
}

TEST(LiveBlocks, StayWhenTheirThreadEnds) {
  std::vector<void*> blocks(500);
  const uint64_t before = live_of(48);
  std::thread([&] {
    for (void*& block : blocks) block = near_malloc(48);
  }).join();
  EXPECT_EQ(live_of(48), before + 500);
  for (void* block : blocks) near_free(block);
  EXPECT_EQ(live_of(48), before);
  count_cases(2);
}

// Sampled blocks lie in slices of their own.
TEST(LiveBlocks, IncludeSampledBlocks) {
  const uint64_t before = live_of(1000);
  ASSERT_EQ(near_profile_start(2000), 0);
  std::vector<void*> blocks(1000);
  for (void*& block : blocks) block = near_malloc(1000);
  EXPECT_EQ(live_of(1000), before + 1000);
  for (void* block : blocks) near_free(block);
  EXPECT_EQ(near_profile_stop(), 0);
  EXPECT_EQ(live_of(1000), before);
  count_cases(2);
}

TEST(LiveBlocks, FitIntoTheirSpans) {
  std::vector<void*> blocks;
  for (size_t size = 1; size <= 32 * 1024; size += 37) blocks.push_back(near_malloc(size));
  void* large = near_malloc(10 << 20);
  const auto now = counted();
  uint64_t bytes = 0;
  for (unsigned c = 0; c < near::kClasses; c++) {
    EXPECT_LE(now->classes[c].live, now->classes[c].capacity) << c;
    bytes += now->classes[c].live * near::kSizeClasses[c].size;
    count_cases();
  }
  EXPECT_EQ(bytes, now->bytes());
  near_stats stats{};
  near_get_stats(&stats);
  EXPECT_LE(bytes + stats.large, stats.in_spans);
  for (void* block : blocks) near_free(block);
  near_free(large);
}

TEST(LiveBlocks, MayBeCountedWhileOtherThreadsWork) {
  if (NEAR_TSAN) GTEST_SKIP() << "the walk of a bin reads links that the owner writes";
  std::atomic<bool> stop{false};
  const uint64_t before = counted()->bytes();
  Threads threads(2, [&](unsigned) {
    std::vector<void*> mine(100);
    while (!stop.load()) {
      for (void*& block : mine) block = near_malloc(200);
      for (void* block : mine) near_free(block);
    }
  });
  for (size_t i = 0; i < scaled(2000); i++) {
    EXPECT_LE(counted()->bytes(), before + 1'000'000);
    count_cases();
  }
  stop = true;
}

}  // namespace
}  // namespace near_test

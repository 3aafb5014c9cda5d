// The thread that gives memory back for owning threads that are busy or blocked.
// Runs with NEARMALLOC_PURGE_THREAD=1 and a short NEARMALLOC_DECAY_MS.
#include "heap/purge_thread.h"

#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

#include "front/thread.h"
#include "heap/magazines.h"
#include "node/memory.h"
#include "node/purge_signal.h"
#include "platform/options.h"
#include "support/cases.h"
#include "support/parallel.h"
#include "support/pattern.h"
#include "support/threads.h"

namespace near_test {
namespace {

class PurgeThreadTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(near::option(near::Option::purge_thread), 1);
    near_free(near_malloc(1));
    other_([] { near_free(near_malloc(1)); });
    EXPECT_TRUE(is_there()) << "two threads have heaps";
  }

  // Starts are rationed, and an earlier test may have used them up: tries until one succeeds.
  static bool is_there() {
    return comes_true([] { return near_set_option("purge_thread", 1) == 0 && is_present(); });
  }
  static bool is_present() { return near::purge_signal.present(); }

  near_stats stats() {
    near_stats stats;
    near_get_stats(&stats);
    return stats;
  }

  // Waits until the condition holds; false if that takes longer than five seconds.
  template <typename Condition>
  static bool comes_true(Condition condition) {
    for (int i = 0; i < 500; i++) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  Worker other_;
};

TEST_F(PurgeThreadTest, AnIdleProcessGivesItsMemoryBack) {
  std::vector<void*> blocks;
  for (int i = 0; i < 30; i++) {
    blocks.push_back(near_malloc(near_test::kWholeUpTo * 100));
    fill(blocks.back(), kWholeUpTo * 100, 1);
  }
  for (void* block : blocks) near_free(block);
  EXPECT_TRUE(comes_true([&] { return stats().dirty == 0; })) << stats().dirty;
  EXPECT_GT(stats().purged, 0u);
  count_cases(2);
}

TEST_F(PurgeThreadTest, ASleepingOwnerHoldsNoMemory) {
  std::vector<void*> blocks;
  other_([&] {
    for (int i = 0; i < 40'000; i++) blocks.push_back(near_malloc(300));
  });
  const uint64_t before = stats().in_spans;
  EXPECT_GT(before, 10'000'000u);
  for (void* block : blocks) near_free(block);
  EXPECT_TRUE(comes_true([&] { return stats().in_spans < before / 10; })) << stats().in_spans;
  EXPECT_TRUE(comes_true([&] { return stats().dirty == 0; })) << stats().dirty;
  EXPECT_GT(stats().remote_claims, 50u);
  count_cases(3);
}

TEST_F(PurgeThreadTest, EndsWithTheSecondThread) {
  {
    Worker third;
    third([] { near_free(near_malloc(1)); });
    EXPECT_TRUE(is_present());
  }
  EXPECT_TRUE(is_present()) << "two are left";
  other_.end();
  EXPECT_FALSE(is_present());
  std::thread([] { near_free(near_malloc(1)); }).join();
  EXPECT_FALSE(is_present());
  count_cases(4);
}

TEST_F(PurgeThreadTest, TheOptionEndsAndStartsIt) {
  EXPECT_EQ(near_set_option("purge_thread", 0), 0);
  EXPECT_FALSE(is_present());
  std::thread([] { near_free(near_malloc(1)); }).join();
  EXPECT_FALSE(is_present());
  EXPECT_TRUE(is_there());
  count_cases(4);
}

TEST_F(PurgeThreadTest, TheProcessorsAndAnOptionSayWhetherThreadsKeepBlocks) {
  ASSERT_EQ(near::topology.count, 1u);
  const auto cpus_before = near::topology.cpus[0];
  const long least_before = near::option(near::Option::magazines);
  const struct {
    unsigned cpus;
    long least;
    bool use;
  } cases[] = {
      {1, 8, false}, {2, 8, false},   {7, 8, false}, {8, 8, true},
      {2, 0, false}, {192, 0, false}, {1, 1, true},  {192, 4096, false},
  };
  for (const auto& [cpus, least, use] : cases) {
    EXPECT_EQ(near_set_option("purge_thread", 0), 0);
    EXPECT_FALSE(near::uses_magazines());
    near::topology.cpus[0] = static_cast<uint16_t>(cpus);
    EXPECT_EQ(near_set_option("magazines", least), 0);
    EXPECT_TRUE(is_there());
    EXPECT_EQ(near::uses_magazines(), use) << cpus << " and " << least;
    count_cases();
  }
  near::topology.cpus[0] = cpus_before;
  near_set_option("magazines", least_before);
}

// Without the purge thread, the thread that frees an ended thread's blocks gives back the spans.
TEST_F(PurgeThreadTest, WithoutItNobodysSpansLeaveWithTheirBlocks) {
  EXPECT_EQ(near_set_option("purge_thread", 0), 0);
  std::vector<void*> blocks;
  std::thread([&] {
    for (int i = 0; i < 200'000; i++) blocks.push_back(near_malloc(300));
  }).join();
  const uint64_t before = stats().in_spans;
  EXPECT_GT(before, 50'000'000u);
  for (void* block : blocks) near_free(block);
  EXPECT_LT(stats().in_spans, before / 4);
  EXPECT_EQ(near_check(), 0u);
  EXPECT_EQ(near_set_option("purge_thread", 1), 0);
  count_cases(2);
}

// The purge thread starts and ends again and again, while it has work.
TEST_F(PurgeThreadTest, StartsAndEndsUnderLoad) {
  std::atomic<bool> over{false};
  std::thread toggler([&over] {
    for (int i = 0; !over; i++) {
      near_set_option("purge_thread", i % 2);
      std::this_thread::sleep_for(std::chrono::milliseconds(i % 7));
    }
  });
  run_threads(3, [](unsigned t) {
    Random random(seed() + t);
    for (size_t life = scaled(60); life > 0; life--) {
      std::thread([&random] {
        void* blocks[50];
        for (void*& block : blocks) block = near_malloc(random.size_up_to(17));
        for (void* block : blocks) near_free(block);
      }).join();
      count_cases();
    }
  });
  over = true;
  toggler.join();
  EXPECT_EQ(near_set_option("purge_thread", 1), 0);
  EXPECT_EQ(near_check(), 0u);
}

// The races that matter: owners at work, other threads that free their blocks, ending threads,
// trims.
TEST_F(PurgeThreadTest, WorksBesideBusyThreads) {
  constexpr size_t kPlaces = 2'000;
  static std::atomic<void*> places[kPlaces];
  run_threads(4, [](unsigned t) {
    for (unsigned life = 0; life < 4; life++) {
      std::thread([t, life] {
        Random random(seed() + 10 * t + life);
        for (size_t i = scaled(20'000); i > 0; i--) {
          const size_t size = random.size_up_to(16);
          auto* block = static_cast<unsigned char*>(near_malloc(size));
          block[0] = block[size - 1] = 1;
          near_free(places[random.below(kPlaces)].exchange(block));
          if (random.below(5'000) == 0) near_malloc_trim(0);
          count_cases();
        }
      }).join();
    }
  });
  for (auto& place : places) near_free(place.exchange(nullptr));
  EXPECT_EQ(near_check(), 0u);
}

}  // namespace
}  // namespace near_test

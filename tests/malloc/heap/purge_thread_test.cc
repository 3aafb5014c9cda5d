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

TEST_F(PurgeThreadTest, TheProcessorsAndAnOptionSayWhatThreadsKeep) {
  using near::MagazineUse;
  ASSERT_EQ(near::topology.count, 1u);
  const auto cpus_before = near::topology.cpus[0];
  const long least_before = near::option(near::Option::magazines);
  const struct {
    unsigned cpus;
    long least;
    MagazineUse use;
  } cases[] = {
      {1, 8, MagazineUse::none},      {2, 8, MagazineUse::by_thread},
      {7, 8, MagazineUse::by_thread}, {8, 8, MagazineUse::all},
      {2, 0, MagazineUse::none},      {192, 0, MagazineUse::none},
      {1, 1, MagazineUse::all},       {192, 4096, MagazineUse::by_thread},
  };
  for (const auto& [cpus, least, use] : cases) {
    EXPECT_EQ(near_set_option("purge_thread", 0), 0);
    EXPECT_EQ(near::magazine_use(), MagazineUse::none);
    near::topology.cpus[0] = static_cast<uint16_t>(cpus);
    EXPECT_EQ(near_set_option("magazines", least), 0);
    EXPECT_TRUE(is_there());
    EXPECT_EQ(near::magazine_use(), use) << cpus << " and " << least;
    count_cases();
  }
  near::topology.cpus[0] = cpus_before;
  near_set_option("magazines", least_before);
}

TEST_F(PurgeThreadTest, OneThreadMoreThanProcessorsIsNotMany) {
  const auto cpus_before = near::topology.cpus[0];
  near::topology.cpus[0] = 1;
  EXPECT_FALSE(near::has_many_threads()) << "two";
  near::count_thread(false);
  EXPECT_TRUE(near::has_many_threads());
  near::discount_thread();
  EXPECT_FALSE(near::has_many_threads());
  near::topology.cpus[0] = cpus_before;
  count_cases(3);
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

// The same for threads that keep scattered blocks of others, as each decides on few processors.
TEST_F(PurgeThreadTest, WorksBesideThreadsThatKeepBlocks) {
  const auto cpus_before = near::topology.cpus[0];
  const long least_before = near::option(near::Option::magazines);
  EXPECT_EQ(near_set_option("purge_thread", 0), 0);
  near_set_option("magazines", 8);
  near::topology.cpus[0] = 7;  // with fewer there would be too many threads
  EXPECT_TRUE(is_there());
  ASSERT_EQ(near::magazine_use(), near::MagazineUse::by_thread);
  struct Head {
    uint32_t size;
    unsigned char tag;
  };
  constexpr size_t kPlaces = 20'000;
  static std::atomic<Head*> places[kPlaces];
  std::atomic<size_t> wrong{0};
  std::atomic<uint64_t> kept{0};
  const auto release = [&](Head* head) {
    if (head == nullptr) return;
    if (reinterpret_cast<unsigned char*>(head)[head->size - 1] != head->tag) wrong++;
    near_free(head);
  };
  run_threads(3, [&](unsigned t) {
    for (unsigned life = 0; life < 3; life++) {
      std::thread([&, t, life] {
        Random random(seed() + 10 * t + life);
        for (size_t i = 40'000; i > 0; i--) {  // a tenth is too few for a decision
          const size_t size = size_t{32} << random.below(6);
          const auto tag = static_cast<unsigned char>(random.below(256));
          void* block = near_malloc(size);
          static_cast<unsigned char*>(block)[size - 1] = tag;
          auto* head = new (block) Head{static_cast<uint32_t>(size), tag};
          release(places[random.below(kPlaces)].exchange(head));
          if (i % 1'000 == 0 && near::current_heap->magazines() != nullptr) {
            uint64_t bytes[near::kMaxNodes] = {};
            near::current_heap->magazines()->add_bytes(bytes);
            kept += bytes[0];
          }
          if (random.below(20'000) == 0) near_malloc_trim(0);
          count_cases();
        }
      }).join();
    }
  });
  for (auto& place : places) release(place.exchange(nullptr));
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(kept, 0u) << "no thread kept any";
  EXPECT_EQ(near_check(), 0u);
  near::topology.cpus[0] = cpus_before;
  near_set_option("magazines", least_before);
}

}  // namespace
}  // namespace near_test

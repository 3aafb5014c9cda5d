// Which runs a heap keeps, and for how long.
#include "heap/run_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "front/front.h"
#include "front/large.h"
#include "heap/registry.h"
#include "nearmalloc/nearmalloc.h"
#include "node/memory.h"
#include "support/cases.h"
#include "support/said_of.h"

namespace near_test {
namespace {

using near::kSliceSize;
using near::RunCache;
using near::Span;

constexpr uint64_t kMuch = uint64_t{1} << 40;

class RunCacheTest : public testing::Test {
 protected:
  Span& run(unsigned number, uint32_t slices) {
    runs_[number].slices = slices;
    return runs_[number];
  }
  // Adds a run, and returns the runs that are surplus then.
  std::vector<Span*> add(Span& run, uint64_t live, uint32_t elsewhere = 0) {
    std::vector<Span*> surplus;
    cache_.add(run);
    while (Span* each = cache_.take_surplus(live, elsewhere)) surplus.push_back(each);
    return surplus;
  }

  std::array<Span, 64> runs_{};
  RunCache cache_;
};

TEST_F(RunCacheTest, TheRunOfTheLengthThatCameLastIsTaken) {
  for (unsigned i = 0; i < 6; i++) EXPECT_TRUE(add(run(i, 1 + i % 3), kMuch).empty());
  EXPECT_EQ(cache_.take(4), nullptr);
  EXPECT_EQ(cache_.take(2), &runs_[4]);
  EXPECT_EQ(cache_.take(2), &runs_[1]);
  EXPECT_EQ(cache_.take(2), nullptr);
  for (const unsigned left : {0u, 2u, 3u, 5u}) EXPECT_EQ(cache_.take_oldest(), &runs_[left]);
  EXPECT_FALSE(cache_.any());
  EXPECT_EQ(cache_.take_oldest(), nullptr);
  count_cases(3);
}

TEST_F(RunCacheTest, KeepsEightRunsAndOneMebibyte) {
  for (unsigned i = 0; i < 8; i++) EXPECT_TRUE(add(run(i, 1), kMuch).empty());
  EXPECT_EQ(add(run(8, 1), kMuch), std::vector<Span*>{&runs_[0]});
  EXPECT_EQ(add(run(9, 8), kMuch), std::vector<Span*>{&runs_[1]});
  EXPECT_EQ(add(run(10, 8), kMuch).size(), 7u) << "16 slices stay";
  EXPECT_EQ(add(run(11, 16), kMuch), (std::vector<Span*>{&runs_[9], &runs_[10]}));
  EXPECT_FALSE(cache_.wants(run(12, 17)));
  count_cases(4);
}

TEST_F(RunCacheTest, AThreadWithFewLargeBlocksKeepsLittle) {
  EXPECT_EQ(add(run(0, 16), 0), std::vector<Span*>{&runs_[0]});
  EXPECT_TRUE(add(run(1, 1), 0).empty());
  EXPECT_TRUE(add(run(2, 1), 0).empty());
  EXPECT_EQ(add(run(3, 1), 0), std::vector<Span*>{&runs_[1]});
  constexpr uint64_t kSixteenth = 16 * kSliceSize;
  EXPECT_TRUE(add(run(4, 1), 3 * kSixteenth).empty()) << "a sixteenth of what is live";
  EXPECT_EQ(add(run(5, 1), 3 * kSixteenth).size(), 1u);
  count_cases(2);
}

TEST_F(RunCacheTest, WithTheSlotsItKeepsOneMebibyteOrAnEighthOfWhatIsLive) {
  constexpr uint64_t kEighth = 8 * kSliceSize;
  EXPECT_TRUE(add(run(0, 2), 16 * kEighth, 14).empty());
  EXPECT_EQ(add(run(1, 1), 16 * kEighth, 14), std::vector<Span*>{&runs_[0]});
  EXPECT_EQ(add(run(2, 1), 16 * kEighth, 16), (std::vector<Span*>{&runs_[1], &runs_[2]}));
  EXPECT_TRUE(add(run(3, 8), 32 * kEighth, 16).empty());
  count_cases(3);
}

TEST_F(RunCacheTest, ARoundWithoutATakeEndsUnused) {
  add(run(0, 1), kMuch);
  EXPECT_TRUE(cache_.ends_round_unused());
  EXPECT_EQ(cache_.take(2), nullptr);
  EXPECT_TRUE(cache_.ends_round_unused());
  EXPECT_NE(cache_.take(1), nullptr);
  EXPECT_FALSE(cache_.ends_round_unused());
  EXPECT_TRUE(cache_.ends_round_unused());
  count_cases();
}

TEST_F(RunCacheTest, AThreadThatNeedsNoneAgainKeepsFew) {
  unsigned kept = 0;
  for (unsigned i = 0; i < 160; i++) {
    Span& freed = run(i % 64, 1);
    if (!cache_.wants(freed)) continue;
    kept++;
    add(freed, kMuch);
  }
  EXPECT_GE(kept, 16u);
  EXPECT_LE(kept, 32u);
  EXPECT_NE(cache_.take(1), nullptr);
  for (unsigned i = 0; i < 8; i++) EXPECT_TRUE(cache_.wants(run(i, 1))) << "it needed one";
  count_cases(2);
}

// The heap of a thread, with true blocks.
TEST(KeptRuns, ServeTheSameLengthAgainAndAreCountedAsCached) {
  constexpr size_t kSize = 3 * kSliceSize;
  near_free(near_malloc(kSize));
  near::Heap& heap = *near::current_heap;
  EXPECT_TRUE(heap.keeps_runs());
  uint64_t before[near::kMaxNodes] = {};
  {
    const near::LockGuard guard(heap.lock);
    heap.add_cached(before);
  }
  EXPECT_GE(before[heap.node()], kSize);
  void* first = near_malloc(kSize);
  near_free(first);
  void* shorter = near_malloc(kSize - 100);
  EXPECT_EQ(near::span_of(shorter), near::span_of(first));
  EXPECT_EQ(near_check(), 0u);
  near_free(shorter);
  auto* zeroed = static_cast<unsigned char*>(near_calloc(1, kSize));
  EXPECT_EQ(zeroed, first);
  for (size_t i = 0; i < kSize; i += 4096) ASSERT_EQ(zeroed[i], 0);
  near_free(zeroed);
  EXPECT_EQ(near_check(), 0u);
  count_cases(3);
}

TEST(KeptRuns, GoBackWhenTheThreadIsIdle) {
  near_malloc_trim(0);  // from here on free pages wait in no heap
  near_free(near_malloc(5 * kSliceSize));
  near::clean_heaps(false);  // notes how far the thread is
  EXPECT_FALSE(near::clean_heaps(false).keeping);
  EXPECT_FALSE(near::current_heap->keeps_runs());
  near_free(near_malloc(5 * kSliceSize));
  EXPECT_TRUE(near::clean_heaps(false).keeping) << "it was busy";
  near_malloc_trim(0);
  EXPECT_FALSE(near::current_heap->keeps_runs());
  count_cases(2);
}

TEST(KeptRuns, GoBackWhenTheThreadDoesNotUseThem) {
  const auto end_round_of_busy_thread = [] {
    near_free(near_malloc(100 * near::kMiB));
    near::clean_heaps(false);
  };
  near_free(near_malloc(7 * kSliceSize));
  end_round_of_busy_thread();
  EXPECT_TRUE(near::current_heap->keeps_runs());
  near_free(near_malloc(7 * kSliceSize));
  end_round_of_busy_thread();
  EXPECT_TRUE(near::current_heap->keeps_runs()) << "the run was used in this round";
  end_round_of_busy_thread();
  EXPECT_FALSE(near::current_heap->keeps_runs());
  count_cases();
}

// Blocks of four lengths replace each other.
TEST(KeptRuns, OfSeveralLengthsServeAThreadThatNeedsThemAgain) {
  std::array<void*, 4> blocks{};
  const auto fill = [&] {
    for (size_t i = 0; i < 4; i++) blocks[i] = near_malloc((i + 1) * kSliceSize);
  };
  const auto empty = [&] {
    for (void* block : blocks) near_free(block);
  };
  for (int i = 0; i < 8; i++) {
    fill();
    empty();
  }
  for (size_t i = 0; i < 4; i++) {
    EXPECT_NE(near::current_heap->take_last_run(i + 1), nullptr) << i + 1 << " slices";
  }
  EXPECT_FALSE(near::current_heap->keeps_runs());
  count_cases(4);
}

// Rounds of the purge thread end while a thread keeps, takes and moves runs.
TEST(KeptRuns, AreEachInOnePlaceWhileRoundsEnd) {
  std::atomic<bool> over{false};
  std::thread rounds([&] {
    while (!over.load()) near::clean_heaps(false);
  });
  std::array<unsigned*, 8> blocks{};
  std::array<unsigned, 8> marks{};
  unsigned wrong = 0;
  for (unsigned i = 0; i < 100'000; i++) {
    const size_t k = i * 7 % blocks.size();
    if (blocks[k] != nullptr && *blocks[k] != marks[k]) wrong++;
    near_free(blocks[k]);
    const size_t slices = 1 + i * 2654435761u % 5;
    blocks[k] = static_cast<unsigned*>(near_malloc(slices * kSliceSize));
    *blocks[k] = marks[k] = i;
  }
  for (unsigned* block : blocks) near_free(block);
  over.store(true);
  rounds.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(near_check(), 0u);
  count_cases(100'000);
}

TEST(KeptRuns, ADoubleFreeIsFound) {
  void* block = near_malloc(2 * kSliceSize);
  near_free(block);
  const std::string said = said_of([&] { near_free(block); });
  EXPECT_NE(said.find("it was freed before"), std::string::npos) << said;
  count_cases();
}

}  // namespace
}  // namespace near_test

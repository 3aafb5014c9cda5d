// Blocks that are counted ahead while the profiler runs (heap/counted.h): malloc's fast path hands
// them out, and those that are left go back.
#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "front/held.h"
#include "front/thread.h"
#include "heap/heap.h"
#include "node/memory.h"
#include "profiling.h"
#include "support/cases.h"
#include "support/said_of.h"

namespace near_test {
namespace {

constexpr size_t kSeldom = size_t{1} << 40;  // the mean at which no block is sampled

near::Heap& heap() { return *near::current_heap; }

unsigned class_in_use(size_t size) {
  return heap().class_of_small.in_use(near::kClassOfSmall[size]);
}

size_t length(const near::FreeList& list) {
  size_t count = 0;
  for (const near::Block* block = list.front(); block != nullptr; block = block->next()) count++;
  return count;
}

size_t ahead_of(near::Heap& heap, unsigned size_class) { return length(heap.ahead(size_class)); }

size_t all_ahead(near::Heap& heap) {
  size_t count = 0;
  for (unsigned c = 0; c < near::kSmallClasses; c++) count += ahead_of(heap, c);
  return count;
}

// The hot span's bin has enough blocks then to count some ahead. Returns a block of that span, or
// it would leave with its last live block.
void* fill_bin(size_t size) {
  void* anchor = nullptr;
  for (unsigned tries = 0; tries < 10; tries++) {
    void* blocks[80];
    for (void*& block : blocks) block = near_malloc(size);
    near_free(anchor);
    anchor = near_malloc(size);
    for (void* block : blocks) near_free(block);
    if (length(heap().bins[class_in_use(size)]) >= std::size(blocks)) break;
  }
  return anchor;
}

// Uses up what is counted ahead, so that the next request counts anew.
void use_up(size_t size) {
  const unsigned size_class = class_in_use(size);
  for (unsigned i = 0; i < 80 && ahead_of(heap(), size_class) > 0; i++) {
    near_free(near_malloc(size));
  }
  ASSERT_EQ(ahead_of(heap(), size_class), 0u);
}

// While one exists, each size has blocks ahead, and spans that do not leave.
class AllSizes {
 public:
  AllSizes() {
    for (size_t size = 16; size <= near::kSmallMax; size += 16) {
      anchors_.push_back(fill_bin(size));
      use_up(size);
      anchors_.push_back(near_malloc(size));  // a free may be the one at which the heap looks
    }
  }
  ~AllSizes() {
    for (void* each : anchors_) near_free(each);
  }
  AllSizes(const AllSizes&) = delete;
  AllSizes& operator=(const AllSizes&) = delete;

 private:
  std::vector<void*> anchors_;
};

void flush_heap() {
  const near::LockGuard guard(heap().lock);
  heap().flush();
}

class AheadTest : public testing::Test {
 protected:
  void SetUp() override { near_free(near_malloc(1)); }
  void TearDown() override {
    flush_heap();
    EXPECT_EQ(all_ahead(heap()), 0u);
    EXPECT_EQ(near_check(), 0u);
  }
};

TEST_F(AheadTest, TheFastPathHandsThemOut) {
  const Profiling profiling(kSeldom);
  for (const size_t size : {16, 64, 100, 128, 512, 1024}) {
    void* anchor = fill_bin(size);
    use_up(size);
    const unsigned size_class = class_in_use(size);
    const uint32_t left = heap().until_sample[size_class].left();
    const uint32_t most = near::most_ahead(near::class_size(size_class));
    std::vector<void*> taken;
    for (uint32_t i = 1; i <= most; i++) {
      const void* next = heap().ahead(size_class).front();
      taken.push_back(near_malloc(size));
      if (i > 1) {
        EXPECT_EQ(taken.back(), next);
      }
      EXPECT_EQ(ahead_of(heap(), size_class), most - i);
      EXPECT_EQ(heap().until_sample[size_class].left(), left - most);
      EXPECT_EQ(near_check(), 0u);
      count_cases();
    }
    std::sort(taken.begin(), taken.end());
    EXPECT_EQ(std::unique(taken.begin(), taken.end()), taken.end());
    for (void* block : taken) near_free(block);
    near_free(anchor);
  }
}

TEST_F(AheadTest, TheyGoBackWhenTheThreadEnds) {
  const Profiling profiling(kSeldom);
  near::Heap* other = nullptr;
  std::thread([&] {
    const AllSizes all;
    other = near::current_heap;
    EXPECT_GT(all_ahead(*other), 32u);
  }).join();
  EXPECT_EQ(all_ahead(*other), 0u);
  count_cases();
}

TEST_F(AheadTest, TheyGoBackUncounted) {
  const Profiling profiling(kSeldom);
  const AllSizes all;
  const unsigned size_class = class_in_use(64);
  const uint32_t left = heap().until_sample[size_class].left();
  const size_t ahead = ahead_of(heap(), size_class);
  EXPECT_GT(ahead, 0u);
  flush_heap();
  EXPECT_EQ(all_ahead(heap()), 0u);
  EXPECT_EQ(heap().until_sample[size_class].left(), left + ahead);
  count_cases();
}

TEST_F(AheadTest, TheyAreUsedAfterTheProfilerStopped) {
  constexpr size_t kSize = 112;
  const unsigned size_class = class_in_use(kSize);
  void* anchor = nullptr;
  void* used = nullptr;
  {
    const Profiling profiling(kSeldom);
    anchor = fill_bin(kSize);
    use_up(kSize);
    used = near_malloc(kSize);
  }
  const void* first = heap().ahead(size_class).front();
  ASSERT_NE(first, nullptr);
  std::vector<void*> blocks;
  for (unsigned i = 0; i < 5000 && ahead_of(heap(), size_class) > 0; i++) {
    blocks.push_back(near_malloc(kSize));
  }
  EXPECT_EQ(ahead_of(heap(), size_class), 0u) << "before a new span is taken";
  for (unsigned i = 0; i < 80; i++) blocks.push_back(near_malloc(kSize));
  EXPECT_NE(std::find(blocks.begin(), blocks.end(), first), blocks.end());
  near_free(anchor);
  near_free(used);
  for (void* block : blocks) near_free(block);
  count_cases();
}

TEST_F(AheadTest, TheNextRunCountsAllAnew) {
  constexpr size_t kSize = 112;
  const unsigned size_class = class_in_use(kSize);
  for (const size_t mean : {kSeldom, size_t{1}, kSeldom}) {
    const Profiling profiling(mean);
    EXPECT_EQ(heap().class_of_small.bins(), near::Bins::empty);
    void* anchor = near_malloc(kSize);
    EXPECT_EQ(heap().class_of_small.bins(), near::Bins::ahead);
    EXPECT_EQ(near::span_of(anchor)->sampled != near::Sampled::none, mean == 1);
    EXPECT_EQ(heap().until_sample[size_class].left() > 1'000'000, mean == kSeldom);
    near_free(fill_bin(kSize));
    near_free(anchor);
    count_cases();
  }
}

// How many bytes of spans a thread keeps that took many blocks of many sizes and freed them.
uint64_t kept_by_a_thread() {
  uint64_t kept = 0;
  std::thread([&kept] {
    near_free(near_malloc(16));
    const uint64_t before = near::nodes[0].totals().in_spans;
    std::vector<void*> blocks;
    for (size_t size = 64; size <= 1024; size += 64) {
      for (unsigned i = 0; i < 200; i++) blocks.push_back(near_malloc(size));
    }
    EXPECT_GE(near::nodes[0].totals().in_spans - before, 16 * near::kSliceSize);
    for (void* block : blocks) near_free(block);
    heap().ask_to_look();
    near_free(near_malloc(20'000));  // a slow path
    EXPECT_EQ(all_ahead(heap()), 0u);
    kept = near::nodes[0].totals().in_spans - before;
    count_cases();
  }).join();
  return kept;
}

TEST_F(AheadTest, TheyKeepNoSpan) {
  const uint64_t without = kept_by_a_thread();
  const Profiling profiling(kSeldom);
  EXPECT_LE(kept_by_a_thread(), without + 4 * near::kSliceSize) << "of the 16 sizes";
}

TEST_F(AheadTest, AnOverwrittenLinkIsReported) {
  const Profiling profiling(kSeldom);
  constexpr size_t kSize = 64;
  const AllSizes all;
  const unsigned size_class = class_in_use(kSize);
  std::vector<near::Block*> dropped;
  for (auto* each = heap().ahead(size_class).front(); each != nullptr; each = each->next()) {
    dropped.push_back(each);
  }
  ASSERT_GT(dropped.size(), 3u);
  dropped[0]->link = 0x4141414141414141;
  void* block = nullptr;
  const std::string said = said_of([&] { block = near_malloc(kSize); });
  EXPECT_NE(said.find("the link in a free block was overwritten"), std::string::npos) << said;
  EXPECT_EQ(std::count(dropped.begin(), dropped.end(), block), 0);
  near_free(block);
  for (near::Block* each : dropped) {  // they count as held
    near::record_held(each);
    near_free(each);
  }
}

TEST_F(AheadTest, ALinkOverwrittenFurtherOnIsReported) {
  const Profiling profiling(kSeldom);
  constexpr size_t kSize = 64;
  const AllSizes all;
  std::vector<near::Block*> dropped;
  for (auto* each = heap().ahead(class_in_use(kSize)).front(); each != nullptr;
       each = each->next()) {
    dropped.push_back(each);
  }
  ASSERT_GT(dropped.size(), 3u);
  dropped[2]->link = 0x4141414141414141;
  EXPECT_NE(near_check(), 0u);
  const std::string said = said_of([&] {
    flush_heap();
    near_free(near_malloc(20'000));  // a slow path reports what was found
    near_free(near_malloc(kSize));
  });
  EXPECT_NE(said.find("the link in a free block was overwritten"), std::string::npos) << said;
  for (near::Block* each : dropped) {
    near::record_held(each);
    near_free(each);
  }
}

TEST_F(AheadTest, ACountdownThatIsNotDrawnStaysSo) {
  near::BlockCountdown countdown;
  EXPECT_FALSE(countdown.is_drawn());
  countdown.give_back(5);
  EXPECT_FALSE(countdown.is_drawn());
  countdown.take(5);
  EXPECT_FALSE(countdown.is_drawn());
  countdown.set(7);
  countdown.take(3);
  EXPECT_EQ(countdown.left(), 4u);
  countdown.give_back(3);
  EXPECT_EQ(countdown.left(), 7u);
  countdown.set(near::BlockCountdown::kMost);
  countdown.give_back(1);
  EXPECT_TRUE(countdown.is_drawn());
  EXPECT_EQ(countdown.left(), near::BlockCountdown::kMost);
  countdown.set(2);
  countdown.take(3);
  EXPECT_EQ(countdown.left(), 0u);
  countdown.reset();
  EXPECT_FALSE(countdown.is_drawn());
  count_cases();
}

}  // namespace
}  // namespace near_test

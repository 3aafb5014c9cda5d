// Free pages inside the spans of a heap at rest: when they leave, and that no block is lost while
// the owner goes on.
#include "heap/rest.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "front/front.h"
#include "platform/options.h"
#include "support/cases.h"
#include "support/fake_clock.h"
#include "support/fake_os.h"
#include "support/heap_room.h"

namespace near_test {
namespace {

using near::kClasses;
using near::kSizeClasses;

class RestTest : public testing::Test {
 protected:
  RestTest() {
    near::start_library();
    near::clean_heaps(true);
    room_ = std::make_unique<HeapRoom>();
  }
  ~RestTest() override {
    while (!room_->live().empty()) room_->free(room_->live().begin()->first);
    room_->flush();
  }

  static constexpr size_t kBytes = 2 << 20;

  // Fills some megabytes with blocks of a class and frees all but every sixteenth page's worth.
  void scatter(unsigned size_class) {
    const size_t size = kSizeClasses[size_class].size;
    std::vector<char*> blocks;
    for (size_t i = 0; i < kBytes / size; i++) blocks.push_back(room_->take(size_class));
    for (size_t i = 0; i < blocks.size(); i++) {
      if (i * size / near::kPageSize % 16 != 0) room_->free(blocks[i]);
    }
  }

  static uint64_t purges() { return fake_os::calls(OsCall::purge); }
  static uint64_t decay_ms() { return static_cast<uint64_t>(near::option(near::Option::decay_ms)); }

  std::unique_ptr<HeapRoom> room_;
};

TEST_F(RestTest, FreePagesOfEveryClassLeave) {
  if (near::os::page_size() != near::kPageSize) GTEST_SKIP() << "no page is free";
  for (unsigned c = 0; c < kClasses; c += 3) {
    scatter(c);
    room_->expect_whole();
    const uint64_t before = purges();
    near::clean_heaps(true);
    EXPECT_GE(purges() - before, 4u) << kSizeClasses[c].size;
    room_->expect_whole();
    const uint64_t after = purges();
    near::clean_heaps(true);
    EXPECT_EQ(purges(), after) << "pages were given back twice";
    for (size_t i = 0; i < kBytes / kSizeClasses[c].size; i++) room_->take(c);
    room_->expect_whole();
    if (HasFatalFailure()) return;
    while (!room_->live().empty()) room_->free(room_->live().begin()->first);
    room_->flush();
    count_cases();
  }
}

TEST_F(RestTest, AHeapIsSweptOnceItsOwnerRestedForTheDecayTime) {
  if (near::os::page_size() != near::kPageSize) GTEST_SKIP() << "no page is free";
  scatter(20);
  const uint64_t before = purges();
  EXPECT_TRUE(near::clean_heaps(false).keeping);
  pass_time(decay_ms() - 1000);
  EXPECT_TRUE(near::clean_heaps(false).keeping) << "the purge thread would sleep";
  room_->take(30);  // a slow path
  EXPECT_TRUE(near::clean_heaps(false).keeping);
  pass_time(decay_ms() - 1000);
  near::clean_heaps(false);
  EXPECT_EQ(purges(), before) << "the heap is active";
  pass_time(2000);
  near::clean_heaps(false);
  const uint64_t after = purges();
  EXPECT_GT(after, before);
  EXPECT_FALSE(room_->heap().at_rest.waits());
  pass_time(10 * decay_ms());
  near::clean_heaps(false);
  EXPECT_EQ(purges(), after) << "nothing was freed meanwhile";
  count_cases();
}

TEST_F(RestTest, ManyPagesDelayTheNextSweep) {
  near::Rest rest;
  EXPECT_FALSE(rest.is_due(0, 5'000, 1'000)) << "nothing was freed";
  rest.mark();
  EXPECT_TRUE(rest.waits());
  EXPECT_TRUE(rest.is_due(0, 5'000, 1'000));
  EXPECT_FALSE(rest.is_due(1, 5'000, 1'000));
  EXPECT_FALSE(rest.is_due(1, 5'999, 1'000));
  EXPECT_TRUE(rest.is_due(1, 6'000, 1'000));
  rest.begin();
  rest.end(6'000, 320'000);
  EXPECT_FALSE(rest.waits());
  rest.mark();
  EXPECT_FALSE(rest.is_due(1, 15'999, 1'000)) << "faults may take a thirtieth of the time";
  EXPECT_TRUE(rest.is_due(1, 16'000, 1'000));
  count_cases();
}

// The owner takes and frees, with and without the lock, while another thread gives pages back.
TEST_F(RestTest, NoBlockIsLostWhileTheOwnerGoesOn) {
  std::atomic<bool> over{false};
  std::atomic<uint64_t> sweeps{0};
  std::thread sweeper([&] {
    while (!over.load()) {
      room_->heap().sweep_if_at_rest(true, 0);
      sweeps++;
    }
  });
  Random random(seed());
  const std::vector<unsigned> classes = {2, 20, 31, 39, 48, 55, kClasses - 1};
  std::vector<char*> held;
  const size_t all = scaled(40'000);
  for (size_t i = 0; i < all; i++) {
    const bool grows = i / 2'000 % 2 == 0;
    if (held.empty() || random.below(4) < (grows ? 3u : 1u)) {
      held.push_back(room_->take(classes[random.below(classes.size())]));
    } else {
      const size_t place = random.below(held.size());
      room_->free(held[place]);
      held[place] = held.back();
      held.pop_back();
    }
    if (HasFailure()) break;
  }
  over.store(true);
  sweeper.join();
  room_->expect_whole();
  EXPECT_GT(sweeps.load(), 0u);
  count_cases(all);
}

// A parked heap and one of a thread that sleeps are alike.
TEST_F(RestTest, PagesOfAParkedHeapLeave) {
  if (near::os::page_size() != near::kPageSize) GTEST_SKIP() << "no page is free";
  HeapRoom other;
  std::vector<char*> blocks;
  const unsigned c = 20;
  for (size_t i = 0; i < kBytes / kSizeClasses[c].size; i++) blocks.push_back(other.take(c));
  near::Heap& heap = other.heap();
  for (size_t i = 0; i < blocks.size(); i++) {
    if (i * kSizeClasses[c].size / near::kPageSize % 16 != 0) other.free(blocks[i]);
  }
  near::park_heap(&heap);
  const uint64_t before = purges();
  near::clean_heaps(true);
  EXPECT_GE(purges() - before, 8u);
  EXPECT_EQ(near::take_heap(0), &heap);
  other.expect_whole();
  for (const auto& [block, size_class] : std::map(other.live())) other.free(block);
  other.flush();
  count_cases();
}

}  // namespace
}  // namespace near_test

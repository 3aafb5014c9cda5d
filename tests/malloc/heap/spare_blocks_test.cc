// Blocks that a heap's thread freed and that its next malloc of the class gets back at once.
#include "heap/spare_blocks.h"

#include <gtest/gtest.h>

#include <vector>

#include "heap/damage.h"
#include "support/cases.h"
#include "support/heap_room.h"

namespace near_test {
namespace {

using near::class_of;
using near::SpareBlocks;

constexpr unsigned kSpareClass = class_of(4'096);
constexpr unsigned kCrowded = class_of(1'281);  // many blocks in a span
constexpr unsigned kLong = class_of(20'000);    // a span has several slices

class SpareBlocksTest : public testing::Test {
 protected:
  void SetUp() override {
    near::start_library();
    near::clean_heaps(true);
    before_ = in_spans();
    room_ = std::make_unique<HeapRoom>();
  }
  void TearDown() override {
    if (room_ == nullptr) return;
    while (!room_->live().empty()) room_->free(room_->live().begin()->first);
    room_->flush();
    EXPECT_EQ(in_spans(), before_);
  }

  static size_t in_spans() { return near::nodes[0].totals().in_spans; }

  // Fills spans of a class, all of whose blocks are live. Returns them by span.
  std::vector<std::vector<char*>> fill(unsigned size_class, size_t spans) {
    std::vector<std::vector<char*>> blocks(spans);
    for (auto& of_span : blocks) {
      do {
        of_span.push_back(room_->take(size_class));
      } while (of_span.size() < HeapRoom::span_of(of_span[0]).shape().capacity);
    }
    return blocks;
  }
  uint32_t spare(unsigned size_class) const { return room_->heap().spares_of(size_class).count(); }

  size_t before_ = 0;
  std::unique_ptr<HeapRoom> room_;
};

TEST_F(SpareBlocksTest, TheShareGrowsWithTheSpans) {
  EXPECT_EQ(SpareBlocks::share_of(0), 0u);
  EXPECT_EQ(SpareBlocks::share_of(3), 0u);
  EXPECT_EQ(SpareBlocks::share_of(4), 1u);
  EXPECT_EQ(SpareBlocks::share_of(6), 2u);
  EXPECT_EQ(SpareBlocks::share_of(10), SpareBlocks::kMost);
  EXPECT_EQ(SpareBlocks::share_of(UINT32_MAX), SpareBlocks::kMost);
  count_cases(6);
}

TEST_F(SpareBlocksTest, TheNextMallocTakesTheBlockFreedLastAndNoSlowPath) {
  for (const unsigned c : {kCrowded, kSpareClass, kLong}) {
    auto spans = fill(c, 8);
    const uint64_t visits = room_->heap().visits();
    for (size_t i = 0; i < 2; i++) room_->free(spans[i][1]);
    EXPECT_EQ(spare(c), 2u);
    EXPECT_FALSE(HeapRoom::span_of(spans[0][0]).reusable);
    room_->expect_whole();
    EXPECT_EQ(room_->take(c), spans[1][1]);
    EXPECT_EQ(room_->take(c), spans[0][1]);
    EXPECT_EQ(room_->heap().visits(), visits);
    room_->expect_whole();
    count_cases();
  }
}

TEST_F(SpareBlocksTest, WhatExceedsTheShareIsFiled) {
  auto spans = fill(kSpareClass, 16);
  for (size_t i = 0; i < 6; i++) room_->free(spans[i][0]);
  EXPECT_EQ(spare(kSpareClass), SpareBlocks::kMost);
  for (size_t i = 0; i < 6; i++) {
    EXPECT_EQ(HeapRoom::span_of(spans[i][1]).reusable, i >= SpareBlocks::kMost);
  }
  room_->expect_whole();
  count_cases(7);
}

TEST_F(SpareBlocksTest, TheyGoBackAsTheClassShrinks) {
  for (const unsigned c : {kSpareClass, kLong}) {
    auto spans = fill(c, 12);
    for (size_t i = 0; i < 4; i++) room_->free(spans[i][0]);
    EXPECT_EQ(spare(c), 4u);
    for (size_t i = 11; i > 0; i--) {
      for (char* block : spans[i]) {
        if (room_->live().count(block) != 0) room_->free(block);
      }
      room_->expect_whole();
      EXPECT_LE(spare(c), SpareBlocks::share_of(static_cast<uint32_t>(room_->spans().size())));
    }
    for (char* block : spans[0]) {
      if (room_->live().count(block) != 0) room_->free(block);
    }
    room_->flush();
    EXPECT_EQ(spare(c), 0u);
    EXPECT_TRUE(room_->spans().empty());
    count_cases(12);
  }
}

TEST_F(SpareBlocksTest, ASmallClassAndAHotSpanHaveNone) {
  EXPECT_FALSE(SpareBlocks::is_for(class_of(1'024)));
  EXPECT_TRUE(SpareBlocks::is_for(class_of(1'025)));
  auto blocks = fill(kSpareClass, 8);
  room_->free(blocks[7][0]);  // of the hot span
  EXPECT_EQ(spare(kSpareClass), 0u);
  room_->expect_whole();
  count_cases(3);
}

// A span that empties gets its blocks back at once, so that it can leave.
TEST_F(SpareBlocksTest, ASpanWithAnEighthFreeGetsItsBlocksBack) {
  for (const unsigned c : {kCrowded, kSpareClass, kLong}) {
    const std::vector<char*> blocks = fill(c, 16)[8];  // the first spans are short
    const near::Span& span = HeapRoom::span_of(blocks[0]);
    const uint32_t capacity = span.shape().capacity;
    uint32_t i = 0;
    while (i < SpareBlocks::kMost) room_->free(blocks[i++]);
    EXPECT_EQ(spare(c), SpareBlocks::kMost);
    EXPECT_EQ(span.frees.freed(), 0u);
    while (span.frees.freed() * 8 < capacity) room_->free(blocks[i++]);
    EXPECT_EQ(spare(c), SpareBlocks::kMost);
    while (spare(c) > 1) room_->take(c);
    room_->free(blocks[i++]);
    EXPECT_EQ(spare(c), 1u);
    EXPECT_FALSE(span.frees_are_fast());  // because one of its blocks is a spare one
    room_->take(c);
    EXPECT_EQ(spare(c), 0u);
    room_->free(blocks[i++]);
    EXPECT_EQ(spare(c), 0u);
    EXPECT_TRUE(span.frees_are_fast());
    EXPECT_TRUE(span.reusable);
    room_->expect_whole();
    count_cases();
  }
}

// Otherwise the fast path of free, which does not look at them, could get one a second time.
TEST_F(SpareBlocksTest, ASpanThatBecomesHotGetsItsOwnBack) {
  for (const unsigned c : {kCrowded, kSpareClass, kLong}) {
    auto spans = fill(c, 16);
    const std::vector<char*>& blocks = spans[8];
    const near::Span& span = HeapRoom::span_of(blocks[0]);
    const uint32_t capacity = span.shape().capacity;
    room_->free(blocks[0]);
    room_->free(spans[9][0]);
    for (uint32_t i = 1; i + 1 < capacity; i++) room_->free(blocks[i]);
    EXPECT_EQ(spare(c), SpareBlocks::kMost);
    const auto taken = static_cast<char*>(room_->heap().refill(c));  // passes the spare blocks by
    ASSERT_TRUE(room_->heap().is_hot(span));
    EXPECT_EQ(spare(c), 1u);
    EXPECT_TRUE(room_->heap().spares_of(c).has(reinterpret_cast<near::Block*>(spans[9][0])));
    EXPECT_EQ(span.frees.freed(), capacity - 2);
    room_->hold(taken, c);
    room_->expect_whole();
    count_cases();
  }
}

// Blocks that a burst filed are taken from the cold span one by one; then its next ones are kept.
TEST_F(SpareBlocksTest, ACloseToFullSpanHasSpareBlocksAgainAfterABurst) {
  auto spans = fill(kSpareClass, 16);
  for (size_t i = 4; i < 8; i++) room_->free(spans[i][0]);
  ASSERT_EQ(spare(kSpareClass), SpareBlocks::kMost);
  const near::Span& span = HeapRoom::span_of(spans[8][0]);
  for (size_t i = 0; i < 3; i++) room_->free(spans[8][i]);
  ASSERT_TRUE(span.frees_are_fast());
  while (span.frees.freed() > 0) room_->take(kSpareClass);
  ASSERT_EQ(spare(kSpareClass), 0u);
  const uint64_t counts = room_->heap().returns.counts.load();
  room_->free(spans[8][5]);
  EXPECT_EQ(spare(kSpareClass), 1u);
  EXPECT_EQ(room_->heap().returns.counts.load(), counts);
  room_->expect_whole();
  count_cases();
}

// The program's error must not let a span leave of which malloc may still hand out a block.
TEST_F(SpareBlocksTest, ASpanWithASpareBlockThatAnotherThreadFreesTooStays) {
  auto spans = fill(kSpareClass, 16);
  near::Span& span = HeapRoom::span_of(spans[8][0]);
  room_->free(spans[8][0]);
  ASSERT_EQ(spare(kSpareClass), 1u);
  const auto pushed =
      span.remote.push(near::SpanBlocks{span.start}, reinterpret_cast<near::Block*>(spans[8][0]));
  ASSERT_TRUE(pushed.first);
  room_->heap().receive(&span);
  for (size_t i = 1; i < spans[8].size(); i++) room_->free_into_span(spans[8][i]);
  {
    const near::LockGuard guard(room_->heap().lock);
    room_->heap().drain();
  }
  EXPECT_EQ(near::take_damage().flaw, near::Flaw::ring);
  EXPECT_EQ(span.owner.load(), &room_->heap());
  // The blocks of the list are lost with its flaw. Those that the program frees now come back.
  span.frees.set(span.shape().capacity - 1, span.shape().capacity);
  while (!room_->live().empty()) room_->free(room_->live().begin()->first);
  count_cases(2);
}

// A span that another heap adopts has no block among the spare ones of its former heap.
TEST_F(SpareBlocksTest, AParkedHeapReturnsThemBeforeASpanIsAdopted) {
  auto spans = fill(kSpareClass, 8);
  room_->free(spans[0][0]);
  room_->free(spans[1][0]);
  room_->free(spans[1][1]);  // this span is filed
  near::Heap& parked = room_->heap();
  auto live = room_->live();
  room_->park();
  HeapRoom adopter;
  char* block = adopter.take(kSpareClass);
  EXPECT_EQ(parked.spares_of(kSpareClass).count(), 0u);
  EXPECT_EQ(near_check(), 0u);
  adopter.free(block);
  room_ = std::make_unique<HeapRoom>();  // takes the parked heap again
  for (auto& [bytes, size_class] : live) {
    near::Span& span = HeapRoom::span_of(bytes);
    near::Heap& owner = *span.owner.load();
    HeapRoom& room = &owner == &room_->heap() ? *room_ : adopter;
    room.live().emplace(bytes, size_class);
  }
  while (!adopter.live().empty()) adopter.free(adopter.live().begin()->first);
  count_cases(2);
}

}  // namespace
}  // namespace near_test

// Spent spans: cold ones with too few free blocks to be filed, which a heap tries before it takes
// memory.
#include <gtest/gtest.h>

#include <vector>

#include "front/front.h"
#include "heap/registry.h"
#include "heap/reusable_spans.h"
#include "support/cases.h"
#include "support/heap_room.h"

namespace near_test {
namespace {

using near::kSizeClasses;
using near::Span;

class SpentSpansTest : public testing::TestWithParam<unsigned> {
 protected:
  SpentSpansTest() {
    near::start_library();
    near::clean_heaps(true);
    room_ = std::make_unique<HeapRoom>();
  }
  ~SpentSpansTest() override {
    while (!room_->live().empty()) room_->free_into_span(room_->live().begin()->first);
    if (!parked_) room_->flush();
  }

  size_t capacity() const { return kSizeClasses[GetParam()].capacity; }
  uint32_t worth() const { return (kSizeClasses[GetParam()].reuse_at + 1u) / 2; }

  // Fills `count` spans, one after the other; all except the last are cold then.
  void fill(size_t count) {
    for (size_t i = 0; i < count; i++) {
      spans_.emplace_back();
      while (spans_.back().size() < capacity()) spans_.back().push_back(room_->take(GetParam()));
    }
  }

  Span& span(size_t number) { return room_->span_of(spans_[number].back()); }

  void free(size_t number, uint32_t blocks) {
    for (; blocks > 0; blocks--) {
      room_->free_into_span(spans_[number].front());
      spans_[number].erase(spans_[number].begin());
    }
  }

  Span& take() { return room_->span_of(room_->take(GetParam())); }

  size_t owned() { return room_->spans().size(); }
  void expect_given(size_t number, uint32_t blocks);

  std::unique_ptr<HeapRoom> room_;
  bool parked_ = false;
  std::vector<std::vector<char*>> spans_;
};

TEST_P(SpentSpansTest, IsTakenWithHalfOfWhatFilesItAndNotWithLess) {
  fill(3);
  free(0, worth() - 1);
  EXPECT_TRUE(span(0).spent);
  EXPECT_FALSE(span(0).reusable);
  EXPECT_NE(&take(), &span(0));
  fill(1);  // the rest of that span, and a part of another one
  free(0, 1);
  EXPECT_TRUE(span(0).spent) << "no event tells of it";
  const size_t before = owned();
  while (owned() == before && &take() != &span(0)) count_cases();
  EXPECT_EQ(owned(), before);
  EXPECT_TRUE(room_->heap().is_hot(span(0)));
  EXPECT_FALSE(span(0).spent);
  room_->expect_whole();
}

TEST_P(SpentSpansTest, TheSpanThatWaitsLongestComesFirst) {
  fill(4);
  for (const size_t number : {2u, 0u, 1u}) free(number, worth());
  for (const size_t number : {0u, 1u, 2u}) {
    for (uint32_t i = 0; i < worth(); i++) EXPECT_EQ(&take(), &span(number));
    count_cases();
  }
  room_->expect_whole();
}

TEST_P(SpentSpansTest, OneWithEnoughFreeBlocksIsFiledAndComesBeforeIt) {
  fill(4);
  free(0, worth());
  free(1, kSizeClasses[GetParam()].reuse_at);
  EXPECT_FALSE(span(1).spent);
  EXPECT_TRUE(span(1).reusable);
  EXPECT_EQ(&take(), &span(1));
  room_->expect_whole();
  count_cases();
}

TEST_P(SpentSpansTest, ItMayBecomeEmptyOrBeClaimed) {
  fill(4);
  free(0, 1);
  free(0, static_cast<uint32_t>(capacity()) - 1);
  for (char* block : spans_[1]) room_->free_remotely(block);
  {
    const near::LockGuard guard(room_->heap().lock);
    EXPECT_EQ(room_->heap().claim_for_sleeper(), 1u);
  }
  EXPECT_EQ(owned(), 2u);
  fill(3);  // it finds neither in a list
  EXPECT_EQ(owned(), 5u);
  room_->expect_whole();
  count_cases();
}

// In a heap that grows each look finds nothing, so few spans are looked at. A look that succeeds
// makes the next ones long.
TEST_P(SpentSpansTest, LooksThatFindNothingBecomeShort) {
  constexpr size_t kFull = 60;
  fill(kFull + 1);
  const auto spans_until_found = [&](size_t number) {
    const size_t before = owned();
    while (owned() < before + 2 * kFull && &take() != &span(number)) continue;
    return owned() - before;
  };
  free(kFull - 1, worth());
  EXPECT_GT(spans_until_found(kFull - 1), 5u);
  for (size_t number = 5; number < kFull - 1; number += 10) {
    for (uint32_t i = 1; i < worth(); i++) take();
    free(number, worth());
    EXPECT_EQ(spans_until_found(number), 0u) << "among 64 spans";
    count_cases();
  }
  room_->expect_whole();
  count_cases();
}

// A parked heap gives a span of which `blocks` are free to an adopter. No other heap is parked
// then.
void SpentSpansTest::expect_given(size_t number, uint32_t blocks) {
  HeapRoom adopter;
  std::vector<near::Heap*> others;
  for (uint32_t i = near::heap_totals().parked; i > 0; i--) others.push_back(near::take_heap(0));
  free(number, blocks);
  Span& given = span(number);
  std::vector<char*> live;
  for (const auto& [block, size_class] : room_->live()) live.push_back(block);
  room_->park();
  parked_ = true;
  char* taken = adopter.take(GetParam());
  EXPECT_EQ(&HeapRoom::span_of(taken), &given);
  for (near::Heap* each : others) near::park_heap(each);
  for (char* block : live) {
    Span& owned = HeapRoom::span_of(block);
    owned.remote.push(near::SpanBlocks{owned.start}, reinterpret_cast<near::Block*>(block)).first
        ? near::heap_by_id(owned.remote.owner())->receive(&owned)
        : void();
  }
  room_->live().clear();
  adopter.free(taken);
  adopter.flush();
  EXPECT_TRUE(adopter.spans().empty());
  count_cases();
}

TEST_P(SpentSpansTest, AParkedHeapGivesThemToo) {
  fill(3);
  free(2, 1);
  expect_given(1, worth());
}

// It cools as the adopter comes, and is the newest then.
TEST_P(SpentSpansTest, AParkedHeapGivesItsHotSpanToo) {
  fill(9);
  expect_given(8, worth());
}

// Old spans that stay full do not hide the others for long.
TEST(ReusableSpansTest, ManySpentSpansAreLookedAtMoreQuickly) {
  constexpr unsigned kClass = 3;
  near::ReusableSpans reusable;
  std::vector<Span> spans(20'000);
  for (Span& each : spans) {
    each.size_class = kClass;
    each.slices = 1;
    each.frees.set(0, kSizeClasses[kClass].reuse_at);
    reusable.file_spent(each);
  }
  spans.back().frees.set(kSizeClasses[kClass].reuse_at - 1, kSizeClasses[kClass].reuse_at);
  unsigned looks = 1;
  for (; looks < 5000 && reusable.find_spent(kClass) == nullptr; looks++) continue;
  EXPECT_EQ(reusable.find_spent(kClass), &spans.back());
  EXPECT_LT(looks, 400u);
  count_cases();
}

// A look that found no page puts its class into debt; turns pay it, and the next span has its look.
TEST(ReusableSpansTest, AClassPaysForLooksInVain) {
  constexpr unsigned kClass = 3;
  constexpr uint32_t kWalked = 500;
  near::ReusableSpans reusable;
  Span spans[2] = {};
  for (Span& each : spans) {
    each.size_class = kClass;
    each.slices = 1;
    reusable.file(each, 0);
  }
  const auto next = [&] { return reusable.sweep_next(1'000, 1); };
  const auto turns_until_next = [&] {
    for (unsigned turns = 1; turns < 100'000; turns++) {
      if (Span* found = next(); found != nullptr) return std::pair(found, turns);
    }
    return std::pair(static_cast<Span*>(nullptr), 0U);
  };
  EXPECT_EQ(turns_until_next().first, &spans[0]);
  reusable.count_look(kClass, kWalked, 0);
  const auto [found, turns] = turns_until_next();
  EXPECT_EQ(found, &spans[1]);
  EXPECT_GT(turns, kWalked / 8) << "it pays";
  EXPECT_LT(turns, 2 * kWalked) << "but not for ever";
  count_cases(2);
}

INSTANTIATE_TEST_SUITE_P(Classes, SpentSpansTest,
                         testing::Values(3, near::class_of(1000), near::kCrowdedClasses - 1));

}  // namespace
}  // namespace near_test

// Which blocks are marked when they come onto a list, and that each has one trial.
#include "heap/marks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "span/span.h"
#include "support/cases.h"
#include "support/pages.h"

namespace near_test {
namespace {

using near::Block;
using near::ListWalk;
using near::Marks;

constexpr unsigned kMarkedClass = 3;
constexpr uint32_t kSize = 64;
constexpr uint8_t kRun = 5;
constexpr unsigned kTrials = 200;
constexpr size_t kMean = 640;  // one block in about ten is marked
constexpr size_t kNever = size_t{1} << 56;
constexpr size_t kAlways = 1;

bool is_marked(const Block* block) { return (block->distance() ^ Block::kMark) < near::kLinkReach; }

class MarksTest : public testing::Test {
 protected:
  MarksTest() {
    span_.start = memory_.start();
    span_.slices = 1;
    near::form_span(span_, kMarkedClass);
    span_.list = &span_.local;
    while (span_.uncarved != 0) near::carve(span_, span_.local);
    for (ListWalk walk(span_, span_.local); Block* block = walk.next();) blocks_.push_back(block);
  }

  void begin(size_t mean, uint64_t seed = 1) { marks_.begin(kRun, mean, seed); }
  void clear() {
    for (Block* block : blocks_) block->set_mark(false);
  }
  size_t marked() const {
    size_t sum = 0;
    for (const Block* block : blocks_) sum += is_marked(block);
    return sum;
  }
  // The next event is so many frees away. Returns after how many the count ends.
  uint32_t await(uint32_t frees) {
    span_.frees.await(frees);
    marks_.look_ahead(span_);
    return span_.frees.remaining();
  }
  // Pushes the first block, as a free does. True if the count ended.
  bool free_block(Block* block) {
    uintptr_t distance;
    EXPECT_FALSE(span_.local.is_first(block, distance));
    span_.local.push(block, distance);
    return span_.frees.tick();
  }

  Memory memory_{near::kChunkSize, near::kChunkSize};
  near::Span span_{};
  Marks marks_;
  std::vector<Block*> blocks_;
};

TEST_F(MarksTest, TheNumberOfTrialsIsGeometric) {
  constexpr uint32_t kMost = 20;
  constexpr unsigned kDraws = 200'000;
  begin(kMean);
  unsigned drawn[kMost + 1] = {};
  for (unsigned i = 0; i < kDraws; i++) {
    const uint32_t number = marks_.draw(kSize, kMost);
    ASSERT_LE(number, kMost);
    drawn[number]++;
  }
  const double pass = std::exp(-static_cast<double>(kSize) / kMean);
  for (uint32_t number = 0; number <= kMost; number++) {
    const double chance =
        number == 0 ? std::pow(pass, kMost) : std::pow(pass, number - 1) * (1 - pass);
    EXPECT_NEAR(drawn[number], chance * kDraws, 5 * std::sqrt(chance * kDraws)) << number;
    count_cases();
  }
}

// All trials of a heap are counted off one distance: those of one span say nothing of another's.
TEST_F(MarksTest, TrialsOfOtherSizesInBetweenDoNotChangeTheirChance) {
  constexpr unsigned kDraws = 200'000;
  constexpr uint32_t kLarge = 1024;
  begin(kMean);
  unsigned large = 0;
  unsigned small = 0;
  unsigned after_large = 0;
  for (unsigned i = 0; i < kDraws; i++) {
    const bool is_large = marks_.draw(kLarge, 1) != 0;
    const bool is_small = marks_.draw(kSize, 1) != 0;
    large += is_large;
    small += is_small;
    after_large += is_large && is_small;
  }
  const auto expect = [&](unsigned count, double chance) {
    EXPECT_NEAR(count, chance * kDraws, 5 * std::sqrt(chance * kDraws));
    count_cases();
  };
  expect(large, near::chance_of(kLarge, kMean));
  expect(small, near::chance_of(kSize, kMean));
  expect(after_large, near::chance_of(kLarge, kMean) * near::chance_of(kSize, kMean));
}

TEST_F(MarksTest, ASpanIsTriedOnceInARun) {
  const size_t all = blocks_.size();
  marks_.be_tried(span_);
  EXPECT_EQ(span_.tried, 0) << "the profiler does not run";
  size_t sum = 0;
  for (unsigned seed = 0; seed < kTrials; seed++) {
    span_.tried = 0;
    begin(kMean, seed);
    marks_.be_tried(span_);
    EXPECT_EQ(span_.tried, kRun);
    const size_t before = marked();
    marks_.be_tried(span_);
    EXPECT_EQ(marked(), before);
    sum += before;
    count_cases();
  }
  const double chance = near::chance_of(kSize, kMean);
  const double expected = chance * kTrials * static_cast<double>(all);
  EXPECT_NEAR(static_cast<double>(sum), expected, 5 * std::sqrt(expected));
  marks_.begin(kRun + 1, kNever, 1);
  marks_.be_tried(span_);
  EXPECT_EQ(marked(), 0u) << "the next run has its own";
}

TEST_F(MarksTest, OnlyBlocksThatHaveJustComeHaveTrials) {
  begin(kAlways);
  marks_.add(span_, blocks_[0], 10);
  EXPECT_EQ(marked(), 0u) << "the span is not tried";
  span_.tried = kRun;
  marks_.add(span_, blocks_[0], 10);
  for (unsigned i = 0; i < 20; i++) EXPECT_EQ(is_marked(blocks_[i]), i < 10) << i;
  count_cases(2);
}

TEST_F(MarksTest, ABlockIsMarkedWhenItIsFreed) {
  span_.tried = kRun;
  for (unsigned seed = 0; seed < kTrials; seed++) {
    begin(kMean, seed);
    clear();
    span_.local.clear(span_.start);
    constexpr uint32_t kFrees = 500;
    await(kFrees);
    uint32_t freed = 0;
    uint32_t left = 0;
    do {
      while (!free_block(blocks_[freed++])) EXPECT_FALSE(is_marked(blocks_[freed - 1]));
      const bool is_due = span_.after_mark != 0;
      left = marks_.count_end(span_);
      EXPECT_EQ(is_marked(blocks_[freed - 1]), is_due);
      EXPECT_EQ(freed + left, kFrees);
      if (left != 0) await(left);
    } while (left != 0);
    EXPECT_EQ(freed, kFrees);
    EXPECT_NEAR(static_cast<double>(marked()), kFrees * near::chance_of(kSize, kMean), 35);
    count_cases();
  }
}

// Of a batch that goes beyond the count, the block that ended the count is marked.
TEST_F(MarksTest, ABatchMayGoBeyondTheMark) {
  span_.tried = kRun;
  begin(kMean);
  const uint32_t to_mark = await(900);
  ASSERT_NE(span_.after_mark, 0);
  begin(kNever);
  marks_.set_beyond(7);
  EXPECT_EQ(marks_.count_end(span_), 900 - to_mark - 7);
  for (unsigned i = 0; i < 20; i++) EXPECT_EQ(is_marked(blocks_[i]), i == 7) << i;
  EXPECT_EQ(marks_.count_end(span_), 0u) << "the mark was set";
  begin(kAlways);
  marks_.set_beyond(5);
  marks_.count_end(span_);
  for (unsigned i = 0; i < 5; i++) EXPECT_TRUE(is_marked(blocks_[i])) << i;
  EXPECT_EQ(marked(), 6u) << "those beyond have trials of their own";
  count_cases(3);
}

TEST_F(MarksTest, ACountThatBeganInTheLastRunGoesOn) {
  span_.tried = kRun;
  begin(kMean);
  const uint32_t to_mark = await(900);
  ASSERT_NE(span_.after_mark, 0);
  marks_.end();
  EXPECT_EQ(marks_.count_end(span_), 900 - to_mark);
  EXPECT_EQ(marked(), 0u);
  EXPECT_EQ(await(900), 900u);
  count_cases();
}

}  // namespace
}  // namespace near_test

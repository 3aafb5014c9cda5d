// How many empty medium spans a heap keeps hot, and which of them leave first.
#include "heap/idle_spans.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "support/cases.h"

namespace near_test {
namespace {

using near::IdleSpans;
using near::Span;

class IdleSpansTest : public testing::Test {
 protected:
  // Adds `count` spans of so many slices, and takes what is surplus out after each.
  void add(unsigned count, uint32_t slices, uint32_t spans_of_heap, bool has_shrunk = false) {
    for (unsigned i = 0; i < count; i++) {
      Span& span = spans_[added_++];
      span.slices = static_cast<uint8_t>(slices);
      idle_.add(span);
      while (Span* surplus = idle_.take_surplus(spans_of_heap, has_shrunk))
        left_.push_back(surplus);
    }
  }
  size_t kept() const { return added_ - left_.size(); }

  std::array<Span, 64> spans_{};
  unsigned added_ = 0;
  std::vector<Span*> left_;
  IdleSpans idle_;
};

TEST_F(IdleSpansTest, ASmallHeapKeepsSomeSlices) {
  add(30, 1, 10);
  EXPECT_EQ(kept(), 24u);
  count_cases();
}

TEST_F(IdleSpansTest, AHeapThatHasShrunkKeepsFewer) {
  add(20, 1, 10);
  add(1, 1, 10, true);
  EXPECT_EQ(kept(), 2u);
  add(32, 1, 10'000, true);  // of a large heap it is a small share: the most are kept
  EXPECT_EQ(kept(), 31u);
  count_cases(2);
}

TEST_F(IdleSpansTest, ALargeHeapKeepsAShareOfItsSpansAndNeverMoreThanAllHaveRoom) {
  add(30, 1, 26 * 32);
  EXPECT_EQ(kept(), 26u);
  add(20, 1, 100'000);
  EXPECT_EQ(kept(), 31u);
  count_cases(2);
}

TEST_F(IdleSpansTest, LongSpansCountBySlicesButAFewStay) {
  add(20, 8, 256);
  EXPECT_EQ(kept(), 6u);
  add(14, 2, 256);
  EXPECT_EQ(kept(), 12u) << "24 slices";
  count_cases(2);
}

TEST_F(IdleSpansTest, TheOneThatWaitsLongestLeavesFirst) {
  add(28, 1, 10);
  ASSERT_EQ(left_.size(), 4u);
  for (size_t i = 0; i < left_.size(); i++) EXPECT_EQ(left_[i], &spans_[i]);
  for (unsigned i = 0; i < added_; i++) EXPECT_EQ(spans_[i].idle, i >= 4);
  count_cases(32);
}

TEST_F(IdleSpansTest, ASpanInTheMiddleLeaves) {
  add(5, 1, 10);
  idle_.remove(spans_[2]);
  EXPECT_FALSE(spans_[2].idle);
  add(21, 1, 10);
  ASSERT_EQ(left_.size(), 1u);
  EXPECT_EQ(left_[0], &spans_[0]);
  count_cases(3);
}

}  // namespace
}  // namespace near_test

// Which runs the slots of a heap hold.
#include "heap/run_slots.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "span/span.h"
#include "support/cases.h"

namespace near_test {
namespace {

using near::RunSlots;
using near::Span;

class RunSlotsTest : public testing::Test {
 protected:
  Span& run(unsigned number, uint32_t slices) {
    runs_[number].slices = slices;
    return runs_[number];
  }
  // The thread has a run of this length that it cannot keep, and then needs one.
  void miss(uint32_t slices) {
    slots_.put(run(31, slices));
    EXPECT_EQ(slots_.put(run(30, 16)), &runs_[31]);
    EXPECT_EQ(slots_.take(16), &runs_[30]);
    slots_.count_missed(slices);
  }
  void open(uint32_t slices) {
    for (int i = 0; i < 4; i++) miss(slices);
  }
  std::vector<Span*> take_unused() {
    std::vector<Span*> taken;
    slots_.take_unused([&](Span& run) { taken.push_back(&run); });
    return taken;
  }

  std::array<Span, 32> runs_{};
  RunSlots<Span> slots_;
};

TEST_F(RunSlotsTest, OneSlotHoldsTheLastRunWithItsLength) {
  near::RunSlot<Span> slot;
  EXPECT_EQ(slot.take(), nullptr);
  EXPECT_EQ(slot.take(1), nullptr);
  EXPECT_EQ(slot.put(run(0, 1)), nullptr);
  EXPECT_EQ(slot.put(run(1, 16)), &runs_[0]);
  EXPECT_EQ(slot.slices(), 16u);
  for (const uint64_t other : {1, 15, 17, 16 + 128}) EXPECT_EQ(slot.take(other), nullptr);
  EXPECT_EQ(slot.take(16), &runs_[1]);
  EXPECT_EQ(slot.take(16), nullptr);
  EXPECT_EQ(slot.put(run(2, 127)), nullptr);
  EXPECT_EQ(slot.take(), &runs_[2]);
  EXPECT_EQ(slot.slices(), 0u);
  count_cases(3);
}

TEST_F(RunSlotsTest, ARowOpensWhenItsRunsWereMissedOften) {
  for (int i = 0; i < 3; i++) miss(2);
  EXPECT_EQ(slots_.put(run(0, 2)), nullptr);
  EXPECT_EQ(slots_.put(run(1, 3)), &runs_[0]);
  EXPECT_EQ(slots_.take(3), &runs_[1]);
  miss(2);
  EXPECT_EQ(slots_.put(run(2, 2)), nullptr);
  EXPECT_EQ(slots_.put(run(3, 3)), nullptr) << "run 2 is in the row";
  EXPECT_EQ(slots_.put(run(4, 3)), &runs_[3]) << "only the length that was missed has a row";
  EXPECT_EQ(slots_.slices(), 5u);
  EXPECT_EQ(slots_.take(3), &runs_[4]);
  EXPECT_EQ(slots_.take(2), &runs_[2]);
  EXPECT_EQ(slots_.slices(), 0u);
  count_cases(2);
}

TEST_F(RunSlotsTest, NoRowOpensForRunsThatTheThreadNeverHad) {
  for (int i = 0; i < 100; i++) slots_.count_missed(2);
  slots_.put(run(0, 2));
  EXPECT_EQ(slots_.put(run(1, 3)), &runs_[0]);
  count_cases();
}

TEST_F(RunSlotsTest, RowsHoldOneMebibyte) {
  for (uint32_t length = 1; length <= 5; length++) open(length);
  unsigned number = 0;
  for (const uint32_t length : {1, 1, 2, 2, 3, 3, 4}) {
    EXPECT_EQ(slots_.put(run(number++, length)), nullptr);
  }
  EXPECT_EQ(slots_.slices(), slots_.kMostSlices);
  for (const uint32_t length : {1, 2, 3, 4, 5}) {
    EXPECT_EQ(slots_.put(run(number, length)), &runs_[number]) << "no room";
    number++;
  }
  for (const uint32_t length : {1, 1, 2, 2, 3, 3, 4}) EXPECT_NE(slots_.take(length), nullptr);
  for (const uint32_t length : {1, 2, 3, 4, 5}) EXPECT_EQ(slots_.take(length), nullptr);
  count_cases(3);
}

TEST_F(RunSlotsTest, TheCommonSlotServesWhenARowIsFull) {
  open(1);
  for (unsigned i = 0; i < 3; i++) EXPECT_EQ(slots_.put(run(i, 1)), nullptr);
  EXPECT_EQ(slots_.put(run(3, 1)), &runs_[2]);
  for (unsigned i = 0; i < 3; i++) EXPECT_NE(slots_.take(1), nullptr);
  EXPECT_EQ(slots_.take(1), nullptr);
  count_cases();
}

TEST_F(RunSlotsTest, ALongRunStaysWhileThereIsRoom) {
  open(1);
  open(2);
  EXPECT_EQ(slots_.put(run(0, 12)), nullptr);
  for (unsigned i = 1; i <= 2; i++) EXPECT_EQ(slots_.put(run(i, 2)), nullptr);
  EXPECT_EQ(slots_.put(run(3, 13)), &runs_[3]);
  EXPECT_EQ(slots_.put(run(4, 11)), &runs_[0]);
  EXPECT_EQ(slots_.put(run(5, 1)), nullptr);
  EXPECT_EQ(slots_.put(run(6, 1)), &runs_[4]) << "the row precedes";
  EXPECT_EQ(slots_.slices(), 6u);
  count_cases(2);
}

TEST_F(RunSlotsTest, RunsThatAreNotUsedLeaveAndCloseTheirRows) {
  open(1);
  slots_.put(run(0, 1));
  slots_.put(run(1, 1));
  slots_.put(run(2, 7));
  EXPECT_TRUE(take_unused().empty());
  EXPECT_EQ(slots_.take(7), &runs_[2]);
  slots_.put(run(2, 7));
  EXPECT_EQ(take_unused(), (std::vector<Span*>{&runs_[0], &runs_[1]}));
  EXPECT_EQ(take_unused(), std::vector<Span*>{&runs_[2]});
  EXPECT_TRUE(take_unused().empty());
  slots_.put(run(3, 1));
  EXPECT_EQ(slots_.put(run(4, 1)), &runs_[3]) << "the row has closed";
  EXPECT_EQ(slots_.take(), &runs_[4]);
  count_cases(3);
}

TEST_F(RunSlotsTest, TakingAllClosesTheRows) {
  open(1);
  slots_.put(run(0, 1));
  slots_.put(run(1, 1));
  EXPECT_NE(slots_.take(), nullptr);
  EXPECT_NE(slots_.take(), nullptr);
  EXPECT_EQ(slots_.take(), nullptr);
  slots_.put(run(2, 1));
  EXPECT_EQ(slots_.put(run(3, 1)), &runs_[2]);
  count_cases();
}

}  // namespace
}  // namespace near_test

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
  void open(uint32_t slices) {
    for (int i = 0; i < 4; i++) slots_.count_missed(slices);
  }
  std::vector<Span*> take_unmoved() {
    std::vector<Span*> taken;
    slots_.take_unmoved([&](Span& run) { taken.push_back(&run); });
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

TEST_F(RunSlotsTest, OneRunIsKeptUntilALengthWasMissedOften) {
  for (int i = 0; i < 3; i++) slots_.count_missed(2);
  EXPECT_EQ(slots_.put(run(0, 2)), nullptr);
  EXPECT_EQ(slots_.put(run(1, 3)), &runs_[0]);
  slots_.count_missed(2);
  EXPECT_EQ(slots_.put(run(2, 2)), nullptr);
  EXPECT_EQ(slots_.put(run(3, 3)), &runs_[1]) << "only the length that was missed has a row";
  EXPECT_EQ(slots_.slices(), 5u);
  EXPECT_EQ(slots_.take(3), &runs_[3]);
  EXPECT_EQ(slots_.take(2), &runs_[2]);
  EXPECT_EQ(slots_.slices(), 0u);
  count_cases(2);
}

TEST_F(RunSlotsTest, RowsHoldOneMebibyte) {
  for (uint32_t length = 1; length <= 5; length++) open(length);
  unsigned number = 0;
  for (const uint32_t length : {1, 1, 2, 2, 3, 3, 4}) {
    EXPECT_EQ(slots_.put(run(number++, length)), nullptr);
  }
  EXPECT_EQ(slots_.slices(), slots_.kMostSlices);
  EXPECT_EQ(slots_.take_surplus(), nullptr);
  for (const uint32_t length : {1, 2, 3, 4}) {
    Span* before = slots_.put(run(number++, length));
    ASSERT_NE(before, nullptr);
    EXPECT_EQ(before->slices, length);
  }
  EXPECT_EQ(slots_.put(run(number, 5)), nullptr);
  EXPECT_EQ(slots_.take_surplus(), &runs_[number]) << "there is no room for long runs";
  EXPECT_EQ(slots_.take_surplus(), nullptr);
  for (const uint32_t length : {1, 1, 2, 2, 3, 3, 4}) EXPECT_NE(slots_.take(length), nullptr);
  for (const uint32_t length : {1, 2, 3, 4, 5}) EXPECT_EQ(slots_.take(length), nullptr);
  count_cases(4);
}

TEST_F(RunSlotsTest, ALongRunStaysWhileThereIsRoom) {
  open(2);
  EXPECT_EQ(slots_.put(run(0, 12)), nullptr);
  for (unsigned i = 1; i <= 2; i++) {
    EXPECT_EQ(slots_.put(run(i, 2)), nullptr);
    EXPECT_EQ(slots_.take_surplus(), nullptr);
  }
  EXPECT_EQ(slots_.put(run(3, 13)), &runs_[0]);
  EXPECT_EQ(slots_.take_surplus(), &runs_[3]);
  EXPECT_EQ(slots_.slices(), 4u);
  count_cases(2);
}

TEST_F(RunSlotsTest, ThoseThatDidNotMoveLeave) {
  open(1);
  slots_.put(run(0, 1));
  slots_.put(run(1, 1));
  slots_.put(run(2, 7));
  EXPECT_TRUE(take_unmoved().empty());
  slots_.put(run(3, 7));  // run 2 left
  EXPECT_EQ(take_unmoved(), (std::vector<Span*>{&runs_[0], &runs_[1]}));
  EXPECT_EQ(take_unmoved(), std::vector<Span*>{&runs_[3]});
  EXPECT_TRUE(take_unmoved().empty());
  EXPECT_EQ(slots_.take(), nullptr);
  count_cases(3);
}

}  // namespace
}  // namespace near_test

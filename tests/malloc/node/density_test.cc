// The lengths of large blocks count as dense if the program writes such blocks. Invariant: no look
// at a block reads protected or unmapped memory.
#include "node/density.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <deque>

#include "support/cases.h"
#include "support/pages.h"

namespace near_test {
namespace {

using near::Densities;
using near::kPageSize;
using near::kSliceSize;
using near::Span;

class DensityTest : public testing::Test {
 protected:
  // The run of a new block, of clean memory with small pages.
  Span& begin(uint32_t slices) {
    Span& run = runs_.emplace_back();
    memory_.emplace_back(slices * kSliceSize);
    run.start = memory_.back().start();
    run.slices = slices;
    run.watched = Densities::kMayBe;
    densities_.begin(run, true);
    count_cases();
    return run;
  }

  // Writes the first byte of each page, up to a byte of the run.
  static void write(Span& run, size_t bytes) {
    for (size_t at = 0; at < bytes; at += kPageSize) run.start[at] = 1;
  }

  // Writes so many bytes of a new block and frees the block.
  void live_and_die(uint32_t slices, size_t bytes) {
    Span& run = begin(slices);
    write(run, bytes);
    densities_.end(run);
  }

  // The answer for all blocks but each fifteenth.
  bool is_dense(uint32_t slices) {
    return densities_.expects_dense(slices) || densities_.expects_dense(slices);
  }

  Densities densities_;
  std::deque<Span> runs_;
  std::deque<Memory> memory_;
};

TEST_F(DensityTest, ALengthOfWhichNothingIsKnownIsNotDense) {
  for (uint32_t slices = 1; slices != 0; slices *= 2) {
    EXPECT_FALSE(is_dense(slices));
    EXPECT_FALSE(is_dense(2 * slices - 1));
    count_cases(2);
  }
}

TEST_F(DensityTest, TheNextBlockOfALengthShowsHowTheLastOneWasWritten) {
  Span& first = begin(4);
  write(first, 4 * kSliceSize);
  EXPECT_FALSE(is_dense(4));
  Span& second = begin(4);
  EXPECT_TRUE(is_dense(4));
  write(second, kPageSize);
  Span& third = begin(4);
  EXPECT_TRUE(is_dense(4)) << "the program may fill the second block yet";
  densities_.end(third);
  EXPECT_FALSE(is_dense(4));
}

TEST_F(DensityTest, TheFreeOfABlockShowsHowItWasWritten) {
  live_and_die(16, 16 * kSliceSize);
  EXPECT_TRUE(is_dense(16));
  live_and_die(16, 8 * kSliceSize);
  EXPECT_FALSE(is_dense(16));
}

TEST_F(DensityTest, AfterASparseBlockSomeDenseOnesAreNeeded) {
  live_and_die(2, 1);
  for (int i = 0; i < 3; i++) {
    live_and_die(2, 2 * kSliceSize);
    EXPECT_FALSE(is_dense(2)) << i;
  }
  live_and_die(2, 2 * kSliceSize);
  EXPECT_TRUE(is_dense(2));
}

TEST_F(DensityTest, WhatIsKnownHoldsForLengthsUpToTheDouble) {
  live_and_die(8, 8 * kSliceSize);
  for (const uint32_t slices : {8u, 9u, 12u, 15u, 16u}) EXPECT_TRUE(is_dense(slices)) << slices;
  for (const uint32_t slices : {7u, 20u, 32u}) EXPECT_FALSE(is_dense(slices)) << slices;
  live_and_die(16, 1);
  EXPECT_FALSE(is_dense(16));
  EXPECT_TRUE(is_dense(12));
}

TEST_F(DensityTest, OneBlockInFifteenStaysToBeWatched) {
  live_and_die(4, 4 * kSliceSize);
  int dense = 0;
  for (int i = 0; i < 150; i++) dense += densities_.expects_dense(4) ? 1 : 0;
  EXPECT_EQ(dense, 140);
}

TEST_F(DensityTest, WhereTheAnswersAreTheSameFewAreWatched) {
  int watched = 0;
  for (int i = 0; i < 1000; i++) {
    Span& run = begin(1);
    watched += run.watched != Densities::kNot ? 1 : 0;
    write(run, 1);
  }
  EXPECT_GE(watched, 8);
  EXPECT_LE(watched, 16);
}

TEST_F(DensityTest, ABlockOfUsedMemoryOrOfHugePagesIsNotWatched) {
  Span run{};
  run.start = memory_.emplace_back(kSliceSize).start();
  run.slices = 1;
  densities_.begin(run, true);
  write(run, kSliceSize);
  densities_.end(run);
  EXPECT_FALSE(is_dense(1));
  count_cases();
}

TEST_F(DensityTest, ARunThatABlockDoesNotFillIsNeverWatched) {
  Span run{};
  run.start = memory_.emplace_back(kSliceSize).start();
  run.slices = 1;
  run.watched = Densities::kMayBe;
  densities_.begin(run, false);
  write(run, kSliceSize);
  densities_.end(run);
  densities_.begin(run, true);  // the next block of the used run
  densities_.end(run);
  EXPECT_FALSE(is_dense(1));
  count_cases();
}

TEST_F(DensityTest, MemoryThatIsProtectedOrGoneIsNotTouched) {
  Span& run = begin(1);
  ASSERT_EQ(mprotect(run.start, kSliceSize, PROT_NONE), 0);
  begin(1);
  ASSERT_EQ(mprotect(run.start, kSliceSize, PROT_READ | PROT_WRITE), 0);
  memory_.pop_back();
  begin(1);
}

TEST_F(DensityTest, WordsOfZeroDoNotMakeAPageUnwritten) {
  Span& run = begin(1);
  for (size_t at = 0; at < kSliceSize; at += 24) run.start[at] = 1;  // a struct of three words
  densities_.end(run);
  EXPECT_TRUE(is_dense(1));
}

}  // namespace
}  // namespace near_test

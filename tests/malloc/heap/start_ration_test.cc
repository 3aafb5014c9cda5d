// How often the helper may start: a few times in a row, then at the rate that the ration allows.
#include "heap/start_ration.h"

#include <gtest/gtest.h>

#include "support/cases.h"

namespace near_test {
namespace {

using near::StartRation;

unsigned starts_at(StartRation& ration, StartRation::Time now) {
  unsigned starts = 0;
  while (ration.take(now)) starts++;
  return starts;
}

TEST(StartRation, SomeStartsAreFree) {
  StartRation ration;
  EXPECT_EQ(starts_at(ration, 5), StartRation::kBurst);
  EXPECT_EQ(starts_at(ration, 5), 0u);
  count_cases(2);
}

TEST(StartRation, TheyComeBackWithTime) {
  StartRation ration;
  starts_at(ration, 1000);
  EXPECT_EQ(starts_at(ration, 1000 + StartRation::kEveryMs - 1), 0u);
  EXPECT_EQ(starts_at(ration, 1000 + StartRation::kEveryMs), 1u);
  EXPECT_EQ(starts_at(ration, 1000 + 4 * StartRation::kEveryMs), 3u);
  EXPECT_EQ(starts_at(ration, 1'000'000), StartRation::kBurst);
  count_cases(4);
}

// A program that creates and joins threads all the time.
TEST(StartRation, ACycleOfThreadsStartsFew) {
  StartRation ration;
  unsigned starts = 0;
  for (unsigned now = 0; now < 10'000; now++) starts += starts_at(ration, now) > 0 ? 1 : 0;
  EXPECT_LE(starts, 10'000 / StartRation::kEveryMs + StartRation::kBurst);
  EXPECT_GE(starts, 10'000 / StartRation::kEveryMs / 2);
  count_cases(2);
}

TEST(StartRation, AnExhaustedOneComesBack) {
  StartRation ration;
  ration.exhaust(1000);
  EXPECT_EQ(starts_at(ration, 1001), 0u);
  EXPECT_EQ(starts_at(ration, 1000 + StartRation::kEveryMs), 1u);
  count_cases(2);
}

TEST(StartRation, TheClockMayWrap) {
  constexpr auto kEnd = static_cast<StartRation::Time>(-1);
  StartRation ration;
  starts_at(ration, kEnd - 5);
  EXPECT_EQ(starts_at(ration, static_cast<StartRation::Time>(kEnd + StartRation::kEveryMs)), 1u);
  count_cases();
}

}  // namespace
}  // namespace near_test

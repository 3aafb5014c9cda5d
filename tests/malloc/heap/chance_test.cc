// The profiler's random intervals and chances, against the C library's functions.
#include "heap/chance.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/cases.h"

namespace near_test {
namespace {

using near::chance_of;
using near::interval_of;
using near::random_bits;

TEST(Chance, IsThatOfAPoissonProcess) {
  for (const double mean : {1.0, 100.0, 524288.0, 1e9}) {
    for (size_t size = 1; size < size_t{1} << 40; size = size * 3 / 2 + 1) {
      const double expected = -std::expm1(-static_cast<double>(size) / mean);
      EXPECT_NEAR(chance_of(size, mean) / expected, 1, 1e-9) << size << " of " << mean;
      count_cases();
    }
  }
}

TEST(Chance, OfNoBytesIsThatOfOne) {
  EXPECT_EQ(chance_of(0, 1000), chance_of(1, 1000));
  count_cases();
}

TEST(Interval, IsTheNegativeLogarithm) {
  for (uint64_t number = 0; number < 10000; number++) {
    const uint64_t bits = random_bits(7, number);
    const double uniform = (static_cast<double>(bits >> 11) + 1) * 0x1p-53;
    EXPECT_NEAR(static_cast<double>(interval_of(bits, 1e9)), -std::log(uniform) * 1e9, 1.5);
  }
  EXPECT_EQ(interval_of(~uint64_t{0}, 1e9), 0) << "the largest random number";
  EXPECT_GT(interval_of(0, 1e9), 36'000'000'000) << "the smallest";
  count_cases(10002);
}

TEST(Interval, HasTheMeanAndTheDeviationOfTheExponentialDistribution) {
  constexpr int kDraws = 200000;
  double sum = 0;
  double squares = 0;
  for (uint64_t number = 0; number < kDraws; number++) {
    const auto value = static_cast<double>(interval_of(random_bits(1, number), 1e6));
    sum += value;
    squares += value * value;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 1e6, 4 * 1e6 / std::sqrt(kDraws));
  EXPECT_NEAR(std::sqrt(squares / kDraws - mean * mean), 1e6, 2e4);
  count_cases();
}

}  // namespace
}  // namespace near_test

// Integer arithmetic against the plainest implementation of the same.
#include "base/bits.h"

#include <gtest/gtest.h>

#include <bit>

#include "support/cases.h"
#include "support/pattern.h"

namespace near_test {
namespace {

unsigned plain_longest_run(uint32_t mask) {
  unsigned best = 0;
  unsigned length = 0;
  for (unsigned bit = 0; bit < 32; bit++) {
    length = (mask >> bit & 1) != 0 ? length + 1 : 0;
    best = std::max(best, length);
  }
  return best;
}

unsigned plain_find_run(uint32_t mask, unsigned count) {
  for (unsigned first = 0; first + count <= 32; first++) {
    unsigned ones = 0;
    while (ones < count && (mask >> (first + ones) & 1) != 0) ones++;
    if (ones == count) return first;
  }
  return 32;
}

// Masks with few and many ones, in runs and scattered.
uint32_t any_mask(Random& random) {
  auto mask = static_cast<uint32_t>(random.next());
  for (uint64_t i = random.below(4); i > 0; i--) mask &= static_cast<uint32_t>(random.next());
  for (uint64_t i = random.below(4); i > 0; i--) mask |= mask >> random.below(8);
  return random.below(50) == 0 ? ~uint32_t{0} : mask;
}

TEST(Bits, RunsOfOnesAreFoundAsByLooking) {
  Random random(seed());
  for (size_t i = scaled(20'000); i > 0; i--) {
    const uint32_t mask = any_mask(random);
    ASSERT_EQ(near::longest_run(mask), plain_longest_run(mask)) << mask;
    for (unsigned count = 1; count <= 32; count++) {
      ASSERT_EQ(near::find_run(mask, count), plain_find_run(mask, count)) << mask << ' ' << count;
    }
    count_cases(33);
  }
}

TEST(Bits, ARunHasItsOnesWhereItIsAskedTo) {
  for (unsigned first = 0; first < 32; first++) {
    for (unsigned count = 0; first + count <= 32; count++) {
      const uint32_t run = near::bit_run(first, count);
      for (unsigned bit = 0; bit < 32; bit++) {
        ASSERT_EQ(run >> bit & 1, bit >= first && bit < first + count ? 1u : 0u);
      }
      count_cases();
    }
  }
}

TEST(Bits, RoundingLandsOnTheNextMultiple) {
  for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    for (size_t value = 0; value < 9000; value += 7) {
      const size_t up = near::align_up(value, alignment);
      const size_t down = near::align_down(value, alignment);
      ASSERT_TRUE(up >= value && up - value < alignment && up % alignment == 0);
      ASSERT_TRUE(down <= value && value - down < alignment && down % alignment == 0);
      ASSERT_EQ(near::div_up(value, alignment), up / alignment);
      count_cases();
    }
  }
}

TEST(Bits, CountsBitsAsTheStandardDoes) {
  uint64_t word = 0x9e37'79b9'7f4a'7c15;
  for (unsigned i = 0; i < 64; i++) {
    for (const uint64_t value : {uint64_t{1} << i, ~uint64_t{0} << i, ~uint64_t{0} >> i, word}) {
      ASSERT_EQ(near::count_bits(value), static_cast<unsigned>(std::popcount(value)));
      count_cases();
    }
    word = word * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;
  }
  ASSERT_EQ(near::count_bits(0), 0u);
}

TEST(Bits, LogarithmsAndPowersAgree) {
  for (unsigned power = 0; power < 64; power++) {
    const size_t value = size_t{1} << power;
    ASSERT_TRUE(near::is_power_of_two(value));
    ASSERT_EQ(near::log2_floor(value), power);
    ASSERT_EQ(near::log2_floor(value | (value - 1)), power);
    ASSERT_EQ(near::is_power_of_two(value | 1), power == 0);
    count_cases();
  }
  ASSERT_FALSE(near::is_power_of_two(0));
  ASSERT_EQ(near::max_of(3, 7), 7u);
  ASSERT_EQ(near::min_of(3, 7), 3u);
}

}  // namespace
}  // namespace near_test

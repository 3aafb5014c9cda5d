#include "heap/chance.h"

#include <bit>

namespace near {
namespace {

constexpr double kLog2 = 0.693147180559945309417;
constexpr int kTerms = 8;
constexpr double kInverse[kTerms + 1] = {0,       1,       1.0 / 2, 1.0 / 3, 1.0 / 4,
                                         1.0 / 5, 1.0 / 6, 1.0 / 7, 1.0 / 8};

// The natural logarithm of a positive, normal number: the exponent, and an odd series for a
// mantissa between sqrt(1/2) and sqrt(2).
double log_of(double value) {
  constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1;
  const auto bits = std::bit_cast<uint64_t>(value);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & kMantissa) | uint64_t{1023} << 52);
  if (mantissa > 1.4142135623730951) {
    mantissa /= 2;
    exponent++;
  }
  const double t = (mantissa - 1) / (mantissa + 1);
  const double square = t * t;
  double sum = 0;
  for (int n = 13; n >= 1; n -= 2) sum = sum * square + 1.0 / n;
  return 2 * t * sum + exponent * kLog2;
}

}  // namespace

uint64_t random_bits(uint64_t seed, uint64_t number) {
  uint64_t value = seed + (number + 1) * 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

int64_t interval_of(uint64_t bits, double mean) {
  return static_cast<int64_t>(-log_of(uniform_of(bits)) * mean);
}

// 1 - exp(-x): a series for a small x, x (1 - x / 2 (1 - x / 3 (1 - ...))); each doubling of x
// squares exp(-x). Without divisions, because each waits for the one before.
double chance_of(size_t size, double mean) {
  double x = static_cast<double>(size == 0 ? 1 : size) / mean;
  if (x > 40) return 1;
  int halvings = 0;
  for (; x > 0.25; halvings++) x /= 2;
  double chance = 0;
  for (int n = kTerms; n >= 1; n--) chance = x * kInverse[n] * (1 - chance);
  for (; halvings > 0; halvings--) chance = chance * (2 - chance);
  return chance;
}

}  // namespace near

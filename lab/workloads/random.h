// Random numbers and sizes. Every machine gets the same sequence.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace workload {

// xorshift64* [Vigna, An experimental exploration of Marsaglia's xorshift generators, 2016].
class Random {
 public:
  explicit Random(uint64_t seed)
      : state_(seed * 0x9e3779b97f4a7c15 + 0x2545f4914f6cdd1d + seed_of_run * 0xd1342543de82ef95) {}

  // Generators made after this call have the sequences of `seed`; 0 is the default. Call it before
  // threads start.
  static void use_seed(uint64_t seed) { seed_of_run = seed; }

  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1d;
  }

  // Uniform in [0, bound), 0 < bound <= 2^32.
  size_t below(size_t bound) { return static_cast<size_t>(((next() >> 32) * bound) >> 32); }

  // Uniform in [low, high].
  size_t between(size_t low, size_t high) { return low + below(high - low + 1); }

 private:
  static inline uint64_t seed_of_run = 0;

  uint64_t state_;
};

// Sizes from `low` to `high`. Each factor of two is equally likely, so most requests are small.
class Sizes {
 public:
  Sizes(size_t low, size_t high) {
    const double range = std::log(static_cast<double>(high) / static_cast<double>(low));
    for (size_t i = 0; i < kSteps; ++i) {
      const double part = static_cast<double>(i) / (kSteps - 1);
      table_[i] =
          static_cast<uint32_t>(std::lround(static_cast<double>(low) * std::exp(range * part)));
    }
  }

  size_t pick(Random& random) const { return table_[random.next() >> (64 - kBits)]; }

 private:
  static constexpr int kBits = 10;
  static constexpr size_t kSteps = size_t{1} << kBits;
  uint32_t table_[kSteps];
};

}  // namespace workload

// The random intervals between samples, and the chance that a block is sampled.
//
// Bytes are sampled as a Poisson process samples time: each byte starts a sample with the chance
// 1 / mean, whatever was sampled before. So the bytes to the next sample are exponentially
// distributed, and a block of `size` bytes is sampled with the chance 1 - exp(-size / mean). A
// sampled block counts as one over its chance, hence sums over samples are unbiased.
// The library links only libc, so the logarithm and the exponential are here; both are exact to
// 1e-9.
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace near {

// 64 random bits, for the number of a draw and a seed. [splitmix64]
uint64_t random_bits(uint64_t seed, uint64_t number);

// A number in (0, 1], from 64 random bits.
inline double uniform_of(uint64_t bits) { return (static_cast<double>(bits >> 11) + 1) * 0x1p-53; }

// A random interval of the mean, in bytes, from 64 random bits: -log(uniform_of(bits)) * mean.
int64_t interval_of(uint64_t bits, double mean);

// The chance that a block is sampled, above 0.
double chance_of(size_t size, double mean);

}  // namespace near

// Fill patterns that tell every block from every other one.
// Invariant: a byte's value is a function of the block's seed and the byte's offset; `holds`
// detects a write by a thread that does not own the block. Large blocks are written and read at
// both ends and once a page in between.
// Thread-safety: only the thread that holds the block uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace near_test {

inline constexpr size_t kWholeUpTo = size_t{16} << 10;
inline constexpr size_t kProbeStep = 4096;

inline uint64_t mix(uint64_t seed, uint64_t offset) {
  uint64_t value = (seed ^ offset) * 0x9e3779b97f4a7c15u;
  value ^= value >> 29;
  return value * 0xbf58476d1ce4e5b9u;
}

inline void fill_range(char* block, size_t from, size_t to, uint64_t seed) {
  for (; to - from >= 8; from += 8) {
    const uint64_t word = mix(seed, from);
    std::memcpy(block + from, &word, 8);
  }
  const uint64_t last = mix(seed, from);
  std::memcpy(block + from, &last, to - from);
}

inline bool range_holds(const char* block, size_t from, size_t to, uint64_t seed) {
  uint64_t different = 0;
  for (; to - from >= 8; from += 8) {
    uint64_t word = 0;
    std::memcpy(&word, block + from, 8);
    different |= word ^ mix(seed, from);
  }
  const uint64_t last = mix(seed, from);
  return different == 0 && std::memcmp(block + from, &last, to - from) == 0;
}

// Calls `step(from, to)` for the ranges of a block of `size` bytes that patterns cover.
template <typename Step>
bool for_pattern_ranges(size_t size, Step step) {
  if (size <= kWholeUpTo) return step(size_t{0}, size);
  for (size_t from = 0; from + 64 <= size; from += kProbeStep) {
    if (!step(from, from + 64)) return false;
  }
  const size_t tail = (size - 64) & ~size_t{7};
  return step(tail, size);
}

inline void fill(void* block, size_t size, uint64_t seed) {
  for_pattern_ranges(size, [&](size_t from, size_t to) {
    fill_range(static_cast<char*>(block), from, to, seed);
    return true;
  });
}

inline bool holds(const void* block, size_t size, uint64_t seed) {
  return for_pattern_ranges(size, [&](size_t from, size_t to) {
    return range_holds(static_cast<const char*>(block), from, to, seed);
  });
}

// True if every byte (every one of any size) is zero.
inline bool is_zero(const void* block, size_t size) {
  const auto* bytes = static_cast<const char*>(block);
  return size == 0 || (bytes[0] == 0 && std::memcmp(bytes, bytes + 1, size - 1) == 0);
}

// A small generator: xorshift64*. Never 0.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix(seed, 0x5eed) | 1) {}

  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1du;
  }

  uint64_t below(uint64_t bound) { return (next() >> 11) % bound; }

  // Log-uniform in [1, 2^bits): as many sizes of each magnitude.
  size_t size_up_to(unsigned bits) {
    const uint64_t top = uint64_t{1} << below(bits);
    return static_cast<size_t>(top + below(top));
  }

 private:
  uint64_t state_;
};

}  // namespace near_test

// Integer arithmetic on powers of two and bit masks.
// Thread-safety: any code; pure functions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"

namespace near {

inline constexpr size_t kKiB = 1024;
inline constexpr size_t kMiB = 1024 * kKiB;
inline constexpr size_t kGiB = 1024 * kMiB;

constexpr bool is_power_of_two(size_t value) { return value != 0 && (value & (value - 1)) == 0; }

constexpr size_t align_up(size_t value, size_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

constexpr size_t align_down(size_t value, size_t alignment) { return value & ~(alignment - 1); }

constexpr size_t div_up(size_t value, size_t divisor) { return (value + divisor - 1) / divisor; }

constexpr size_t max_of(size_t a, size_t b) { return a > b ? a : b; }
constexpr size_t min_of(size_t a, size_t b) { return a < b ? a : b; }

// floor(log2(value)); value > 0.
constexpr unsigned log2_floor(size_t value) {
  return static_cast<unsigned>(std::bit_width(value)) - 1;
}

// The number of bits that are 1. Not every x86-64 has the instruction; without it, compilers call a
// function of libgcc that has a table.
constexpr unsigned count_bits(uint64_t value) {
  value -= (value >> 1) & 0x5555'5555'5555'5555;
  value = (value & 0x3333'3333'3333'3333) + ((value >> 2) & 0x3333'3333'3333'3333);
  value = (value + (value >> 4)) & 0x0f0f'0f0f'0f0f'0f0f;
  return static_cast<unsigned>((value * 0x0101'0101'0101'0101) >> 56);
}

// value ^= other; true if the result is zero. On x86 the xor itself sets the zero flag; compilers
// would emit a comparison before it, one instruction more.
NEAR_INLINE bool xor_is_zero(uintptr_t& value, uintptr_t other) {
#if defined(__x86_64__)
  bool zero;
  asm("xorq %2, %0" : "+r"(value), "=@ccz"(zero) : "r"(other));
  return zero;
#else
  value ^= other;
  return value == 0;
#endif
}

// A mask of `count` ones from bit `first`; first + count <= 32.
constexpr uint32_t bit_run(unsigned first, unsigned count) {
  return count == 0 ? 0 : (~uint32_t{0} >> (32 - count)) << first;
}

// The length of the longest run of ones, built from runs of 16, 8, 4, 2 and 1, in this order.
constexpr unsigned longest_run(uint32_t mask) {
  if (mask == ~uint32_t{0}) return 32;
  const uint32_t of2 = mask & mask >> 1;  // bit i: a run of 2 starts at i
  const uint32_t of4 = of2 & of2 >> 2;
  const uint32_t of8 = of4 & of4 >> 4;
  const uint32_t of16 = of8 & of8 >> 8;
  uint32_t starts = ~uint32_t{0};  // bit i: a run of `length` starts at i
  unsigned length = 0;
  const auto add = [&](uint32_t runs, unsigned more) {
    const uint32_t longer = starts & runs >> length;
    if (longer == 0) return;
    starts = longer;
    length += more;
  };
  add(of16, 16);
  add(of8, 8);
  add(of4, 4);
  add(of2, 2);
  add(mask, 1);
  return length;
}

// The first position of a run of `count` ones (1..32), or 32 if there is none.
constexpr unsigned find_run(uint32_t mask, unsigned count) {
  unsigned have = 1;  // bit i of mask: a run of `have` ones starts at i
  while (have < count && mask != 0) {
    const unsigned step = have < count - have ? have : count - have;
    mask &= mask >> step;
    have += step;
  }
  return static_cast<unsigned>(std::countr_zero(mask));
}

// The slot of `key` in a table of 2^bits slots; `bits` is 1 to 32. [Knuth, TAOCP 3, 6.4: Fibonacci
// hashing]
constexpr unsigned hash_slot(uint64_t key, unsigned bits) {
  return static_cast<unsigned>(key * 0x9e37'79b9'7f4a'7c15 >> (64 - bits));
}

}  // namespace near

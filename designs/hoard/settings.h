// Hoard's constants, which are its switches, with the paper's values as defaults. [Berger00 §5]
// Thread-safety: written at start, read by any thread.
#pragma once

#include <cstddef>
#include <span>

#include "base/bits.h"
#include "designs/shared/switches.h"

namespace near::design::hoard {

// A superblock's fullness is told in eighths, so f is a multiple of one.
inline constexpr unsigned kEighths = 8;

struct Settings {
  unsigned superblock_shift = 13;  // log2 of S
  unsigned empty_eighths = 2;      // 8 f
  unsigned slack = 4;              // K
  unsigned base_percent = 120;     // 100 b
  unsigned heaps = 0;              // P' (0: two for each processor)

  size_t superblock() const { return size_t{1} << superblock_shift; }
};
extern Settings settings NEAR_HIDDEN;

std::span<Switch> switches();

// Effect: `settings` hold the values of the switches.
void apply_switches();

}  // namespace near::design::hoard

// a2alloc, and kheap, from which it started: one allocator of pages cut into blocks, with one lock
// and one set of lists, or with one of each for every processor. [Boritz §2]
// Thread-safety: constants; the switches are written at start.
#pragma once

#include <span>

#include "designs/shared/switches.h"

namespace near::design::a2alloc {

struct Variant {
  const char* name;
  bool per_processor;  // else one heap, and `free` searches it for the page: pages have no header
};

inline constexpr Variant kA2alloc{.name = "a2alloc", .per_processor = true};
inline constexpr Variant kKheap{.name = "kheap", .per_processor = false};

// The build defines which of them is compiled.
inline constexpr Variant kVariant = NEAR_DESIGN_VARIANT;

// Alternatives that the report tried, and their cost [Boritz §3]; kheap has none of them.
struct Settings {
  bool block_metadata = false;   // each block has a header, not each page
  bool pageref_in_page = false;  // a page starts with its pageref
  bool walk = false;             // malloc and free look through the list of a class, as reported
  unsigned emptiness = 0;        // Hoard's f in per cent; 0: pages leave their heap only when empty
};
extern Settings settings;

std::span<Switch> switches();

// Effect: `settings` hold the values of the switches.
void apply_switches();

}  // namespace near::design::a2alloc

// a2alloc, and kheap, which it started from: one allocator of pages cut into blocks, with one lock
// and one set of lists, or with one of each for every processor. [Boritz §2]
// Thread-safety: constants; the switches are written at start.
#pragma once

#include <span>

#include "designs/shared/switches.h"

namespace near::a2alloc {

struct Config {
  const char* name;
  bool
      per_processor;  // else one heap, whose pages say nothing of themselves: `free` looks for them
};

inline constexpr Config kA2alloc{.name = "a2alloc", .per_processor = true};
inline constexpr Config kKheap{.name = "kheap", .per_processor = false};

// The build names the one that is compiled.
inline constexpr Config kConfig = NEAR_DESIGN_CONFIG;

// What the report tried, and what it cost [Boritz §3]; kheap has none of it.
struct Settings {
  bool block_metadata = false;   // the header stands before every block, not in every page
  bool pageref_in_page = false;  // a page starts with its pageref
  bool walk = false;             // malloc and free look through the list of a class, as reported
  unsigned emptiness = 0;        // Hoard's f in per cent; 0: pages change hands only when empty
};
extern Settings settings;

std::span<design::Switch> switches();

// Effect: `settings` are what the switches say.
void settle();

}  // namespace near::a2alloc

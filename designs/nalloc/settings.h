// nalloc, and __nalloc (nalloc0), which its author wrote first and proposes for requests too large
// for slabs: one allocator of pages in a lock-free wrapper, with or without slabs. [Podolsky13]
// Thread-safety: constants; the switches are written at start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/compiler.h"
#include "designs/shared/switches.h"

namespace near::design::nalloc {

struct Variant {
  const char* name;
  bool slabs;  // else every block up to a page comes from a coalescing arena
};

inline constexpr Variant kNalloc{.name = "nalloc", .slabs = true};
inline constexpr Variant kNalloc0{.name = "nalloc0", .slabs = false};

// The build defines which of them is compiled.
inline constexpr Variant kVariant = NEAR_DESIGN_VARIANT;

struct Settings {
  bool stack_first = false;    // else blocks come from the contiguous section first
  bool wayward_apart = false;  // the wayward stack has a cache line of its own
  size_t header = 64;          // bytes of a slab's header; twice as much with `wayward_apart`
  bool steal = true;           // else a slab whose blocks are all wayward becomes clean at once
  unsigned keep = 5;           // slabs of a class beyond which a whole one becomes clean
  size_t clean_pages = 0;      // clean pages that keep their memory; 0: no limit
  uint32_t batch = 16;         // pages that a heap takes from the arena at a time; divides 512
  bool populate = false;       // the system makes them resident at once
  bool class_table = false;    // else a size's class is computed
  size_t divisor = 0;          // a page's size, by which addresses are divided; 0: bits instead
};
extern Settings settings NEAR_HIDDEN;

std::span<Switch> switches();

// Effect: `settings` hold the values of the switches.
void apply_switches();

}  // namespace near::design::nalloc

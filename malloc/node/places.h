// Where the first window lies: at random places near the upper end of the address space.
// docs/decisions/0025-keys-and-places.md
// Thread-safety: any thread, after draw_key.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"

namespace near {

// `heap` is 0 if there is no place.
struct Places {
  uintptr_t heap;
  uintptr_t head;  // of the tables and descriptors
  uintptr_t lowest() const { return min_of(heap, head); }
};

// Heap and head end below the upper end of the program's address space by a gap, in which the
// system places its own mappings, and by two independent offsets, which differ from run to run: up
// to a quarter of the address space, or what is left. There is no place if the gap and both exceed
// half of the address space.
Places first_places(size_t heap_bytes, size_t head_bytes);

}  // namespace near

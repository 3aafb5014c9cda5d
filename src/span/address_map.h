// From an address to the descriptor of its slice.
//
// All regions made at start lie in one reservation, so their descriptors are one array and the way
// there is a subtraction, a comparison and a shift. Regions made later are found in a table, on
// slow paths.
// Who may touch it: written once at start, before any block exists; read by any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "span/layout.h"

namespace near {

// Single variables, not a struct: each is then one operand of an instruction of the fast path.
extern NEAR_HIDDEN uintptr_t reserved_base;  // of the first reservation; 0 before there is one
// Of the first reservation; 0 before there is one, so that no address is inside.
extern NEAR_HIDDEN size_t reserved_bytes;
extern NEAR_HIDDEN Span* reserved_spans;  // descriptor of the slice at reserved_base

// How far `address` lies in the first reservation; reserved_bytes and more if it does not.
NEAR_INLINE size_t offset_in_reservation(const void* address) {
  return reinterpret_cast<uintptr_t>(address) - reserved_base;
}

}  // namespace near

// From an address to the descriptor of its slice.
//
// The first window's descriptors are one array, so the way there is a subtraction, a comparison and
// a shift. The array grows: descriptors exist below `reserved_bytes` only, and that never shrinks.
// Windows made later are found in a table, on slow paths.
// Thread-safety: the base is written once at start, before any block exists, and the size by the
// thread that adds descriptors (its lock: regions_lock); any thread reads both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "span/layout.h"

namespace near {

// A size that only grows, and that any thread may read late. A plain load, because GCC 12 makes two
// instructions of a relaxed one that is compared: a thread that frees a block has it by way of its
// allocation, which comes after the store, and a thread that sees less takes the slow path, which
// reads again. Under TSan both sides are atomic, so that it stays silent about this and nothing
// else.
class GrowingSize {
 public:
  NEAR_INLINE operator size_t() const {
    // relaxed: see above
    if constexpr (NEAR_TSAN) return __atomic_load_n(&value_, __ATOMIC_RELAXED);
    return value_;
  }
  void grow_to(size_t value) {
    __atomic_store_n(&value_, value, __ATOMIC_RELAXED);  // relaxed: see above
  }

 private:
  size_t value_ = 0;
};

// Alone on its lines: every free on every processor reads it, and it is hardly ever written.
struct alignas(128) AddressMap {
  uintptr_t base = 0;     // of the first window's heap; 0 before there is one
  GrowingSize bytes;      // of it, with descriptors; 0 before there are any: no address is inside
  Span* spans = nullptr;  // descriptor of the slice at `base`
};
extern NEAR_HIDDEN AddressMap address_map;

// Each is one operand of an instruction of the fast path.
inline constexpr const uintptr_t& reserved_base = address_map.base;
inline constexpr const GrowingSize& reserved_bytes = address_map.bytes;
inline constexpr Span* const& reserved_spans = address_map.spans;

// How far `address` lies in the first window; reserved_bytes and more if it does not.
NEAR_INLINE size_t offset_in_reservation(const void* address) {
  return reinterpret_cast<uintptr_t>(address) - reserved_base;
}

}  // namespace near

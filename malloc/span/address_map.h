// Finds the descriptor of the slice that holds an address.
//
// The first window's descriptors are one array, so this takes a subtraction, a comparison and a
// shift. The array grows: descriptors exist only below `reserved_bytes`, which never shrinks. Slow
// paths find the windows that were added later in a table.
// Thread-safety: the base is written once at start, before any block exists; the size is written
// under windows_lock; any thread reads both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "span/layout.h"

namespace near {

// A size that only grows, and that a thread may read late. The load is plain, because GCC 12
// compiles a relaxed load and a comparison to two instructions. That is safe: a block is allocated
// after the store that covers it, so the thread that frees it sees that size; a thread that sees
// less takes the slow path, which reads again. Under TSan the load is atomic, so that TSan reports
// all other races but not this one.
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

// It has cache lines of its own: every free on every processor reads it, and writes are rare.
struct alignas(128) AddressMap {
  uintptr_t base = 0;     // start of the first window's heap; 0 before there is one
  GrowingSize bytes;      // bytes from `base` on that have descriptors; 0 at first
  Span* spans = nullptr;  // descriptor of the slice at `base`
};
extern NEAR_HIDDEN AddressMap address_map;

// Each is one operand of an instruction of the fast path.
inline constexpr const uintptr_t& reserved_base = address_map.base;
inline constexpr const GrowingSize& reserved_bytes = address_map.bytes;
inline constexpr Span* const& reserved_spans = address_map.spans;

// The offset of `address` in the first window; at least reserved_bytes if it lies elsewhere.
NEAR_INLINE size_t offset_in_reservation(const void* address) {
  return reinterpret_cast<uintptr_t>(address) - reserved_base;
}

}  // namespace near

// The functions *allocx as documented by jemalloc 5.3. A request gets a whole block, and may use
// every byte. The flags have an alignment and a request for zeros; arenas and thread caches in the
// flags change nothing (shim/jemalloc_numbers.h).
// Thread-safety: any thread.
#include <cerrno>
#include <cstring>

#include "base/bits.h"
#include "front/front.h"
#include "front/refuse.h"
#include "shim/replaceable.h"

namespace {

struct Flags {
  size_t alignment;
  bool zero;

  explicit Flags(int flags)
      : alignment(near::max_of(size_t{1} << (flags & 0x3f), near::kBlockAlign)),
        zero((flags & 0x40) != 0) {}
};

void* zeroed(size_t whole, size_t alignment) {
  if (alignment <= near::kBlockAlign) return near::allocate_zeroed(1, whole);
  void* const block = near::allocate_aligned(alignment, whole);
  return block != nullptr ? memset(block, 0, whole) : nullptr;
}

bool is_aligned(const void* block, size_t alignment) {
  return reinterpret_cast<uintptr_t>(block) % alignment == 0;
}

// As realloc; the address is a multiple of `alignment`.
void* reallocate_aligned(void* block, size_t whole, size_t alignment) {
  if (is_aligned(block, alignment)) {
    const size_t usable = whole > near::kMediumMax ? near::resize_in_place(block, whole, whole)
                                                   : near::usable_size(block);
    if (near::fits_well(whole, usable)) return block;
  }
  void* const moved = near::allocate_aligned(alignment, whole);
  if (moved == nullptr) return nullptr;
  memcpy(moved, block, near::min_of(near::usable_size(block), whole));
  near::release(block);
  return moved;
}

// Zeroes the bytes of the block from `before` on.
void zero_rest(void* block, size_t before, size_t usable) {
  if (usable > before) memset(static_cast<char*>(block) + before, 0, usable - before);
}

}  // namespace

extern "C" {

NEAR_REPLACEABLE void* mallocx(size_t size, int flags) noexcept {
  const Flags wanted(flags);
  const size_t whole = near::whole_block(size, wanted.alignment);
  if (whole == 0) return near::refuse();
  return wanted.zero ? zeroed(whole, wanted.alignment)
                     : near::allocate_aligned(wanted.alignment, whole);
}

NEAR_REPLACEABLE void* rallocx(void* block, size_t size, int flags) noexcept {
  const Flags wanted(flags);
  const size_t whole = near::whole_block(size, wanted.alignment);
  if (whole == 0) return near::refuse();
  const size_t before = near::usable_size(block);
  void* const moved = wanted.alignment <= near::kBlockAlign
                          ? near::reallocate(block, whole)
                          : reallocate_aligned(block, whole, wanted.alignment);
  if (moved != nullptr && wanted.zero) zero_rest(moved, before, near::usable_size(moved));
  return moved;
}

NEAR_REPLACEABLE size_t xallocx(void* block, size_t size, size_t extra, int flags) noexcept {
  const size_t before = near::usable_size(block);
  const size_t most = size + near::min_of(extra, SIZE_MAX - size);
  const size_t usable = near::resize_in_place(block, size, most);
  if (Flags(flags).zero) zero_rest(block, before, usable);
  return usable;
}

NEAR_REPLACEABLE size_t sallocx(const void* block, int) noexcept {
  return near::usable_size(block);
}

NEAR_REPLACEABLE void dallocx(void* block, int) noexcept { near::release(block); }

NEAR_REPLACEABLE void sdallocx(void* block, size_t size, int flags) noexcept {
  near::release_within(block, size, Flags(flags).alignment);
}

NEAR_REPLACEABLE size_t nallocx(size_t size, int flags) noexcept {
  return near::whole_block(size, Flags(flags).alignment);
}

}  // extern "C"

// A page of blocks of one class, and the data stored in it.
//
// A page is cut at multiples of its class size. Its first bytes may hold a header, which overlaps
// block 0; what is left of block 0, the head slot, serves only requests that fit. Free blocks are
// linked through their first word.
// Invariant: the head slot is never on the list of free blocks, so no full-sized request gets it.
// [Boritz §2 "Block class size", "Metadata"]
// Thread-safety: headers are written before a block is handed out. While a block is handed out they
// change only under the locks of both heaps, so a thread that holds a block may read its header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "designs/a2alloc/settings.h"
#include "designs/shared/block_list.h"
#include "designs/shared/freed.h"

namespace near::design::a2alloc {

inline constexpr size_t kPage = 4096;
inline constexpr size_t kSmallest = 8;
inline constexpr size_t kLargest = kPage / 2;
inline constexpr unsigned kClasses = log2_floor(kLargest) - log2_floor(kSmallest) + 1;
static_assert(kClasses == 9);

constexpr size_t size_of(unsigned size_class) { return kSmallest << size_class; }

// The class of 0..kLargest bytes.
constexpr unsigned class_of(size_t bytes) {
  return bytes <= kSmallest ? 0 : log2_floor(bytes - 1) + 1 - log2_floor(kSmallest);
}

struct Pageref;

// Stored in front of a page's blocks, of each block, or of a large block.
struct Header {
  static constexpr int32_t kLarge = -1;
  Atomic<int32_t> heap;  // of a small block's page; or kLarge
  uint32_t count;        // the class; for a large block, its pages from the header on
  union {
    Pageref* pageref;
    size_t before;  // large: the pages before the header's
  };
};
static_assert(sizeof(Header) == 16);

// In a2alloc each pageref has a cache line of its own; in kheap it does not.
inline constexpr size_t kPagerefGrain = kVariant.per_processor ? 64 : 16;

// The state of a page, stored apart or at the page's start. [Boritz §2]
struct alignas(kPagerefGrain) Pageref {
  char* page;     // never changes; if the pageref is in its page, free reads this without the lock
  Pageref* next;  // in a list of its heap (List), or in one of FreeRefs
  Pageref* prev;
  Block* free;
  uint32_t used;  // blocks handed out, including the head slot
  uint32_t size_class;
  bool head_is_free;
  Atomic<int32_t> heap;  // as in the header
};
static_assert(sizeof(Pageref) == align_up(48, kPagerefGrain));

// How the pages of a class are laid out under the present settings.
struct PageLayout {
  size_t first;       // offset of the first whole block
  size_t head_start;  // of the head slot, after the header
  size_t head_room;   // 0: there is no head slot
};

inline size_t page_header_bytes() {
  if (settings.pageref_in_page) return sizeof(Pageref);
  return kVariant.per_processor && !settings.block_metadata ? sizeof(Header) : 0;
}
inline size_t block_header_bytes() { return settings.block_metadata ? sizeof(Header) : 0; }

inline PageLayout layout_of(unsigned size_class) {
  const size_t header = page_header_bytes();
  const size_t first = align_up(header, size_of(size_class));
  return {.first = first, .head_start = header, .head_room = first - header};
}

inline size_t blocks_in_page(const PageLayout& layout, unsigned size_class) {
  return (kPage - layout.first) / size_of(size_class) + (layout.head_room > 0 ? 1 : 0);
}

// Cuts the page into free blocks of the class, for the heap of that index.
void prepare(Pageref& pageref, unsigned size_class, int32_t heap);

// A block for `size` bytes with its header; null if there is none that is large enough.
void* take_block(Pageref& pageref, size_t size);

// `twice`: it is the block that was freed last, or the page has no block in use.
Freed put_block(Pageref& pageref, void* block);

// Whether the page has a whole free block.
inline bool has_room(const Pageref& pageref) { return pageref.free != nullptr; }

// Whether a head slot of the class holds `size` bytes and the block header, if there is one.
inline bool fits_head(unsigned size_class, size_t size) {
  return size + block_header_bytes() <= layout_of(size_class).head_room;
}

// Gives the page to another heap: changes its pageref and, if there is one, the page's header.
void set_heap(Pageref& pageref, int32_t heap);

// The bytes that the owner of a live block of the page may use.
size_t usable_in(const Pageref& pageref, const void* block);

inline char* page_of(const void* block) {
  return reinterpret_cast<char*>(align_down(reinterpret_cast<uintptr_t>(block), kPage));
}

}  // namespace near::design::a2alloc

// The free blocks of a span, linked through themselves.
//
//   link of a block = next ^ block ^ link_key
//   next: the address of the block after it or, odd, the end of the list
//
// The key is random, one for each process. Both addresses lie in one chunk of kLinkReach bytes, so
// link ^ link_key = next ^ block is less than kLinkReach while the link is whole. A program that
// writes to a freed block, or past the end of the block before it, changes the link: a pop decodes
// something larger, unless the writer knows the key or hits one of 2^43, and does not follow it. No
// link leads out of its chunk. The end of a list is no null but an odd address in the chunk: it
// passes that test, so the last block of a list needs no slow path. The pop after it sees the
// lowest bit. docs/decisions/0013-encoded-links.md
//
// Invariant: the head of a span's list is a block of it or, odd, an address in its chunk. A list of
// no span holds kNoSpan, and nobody pushes there.
// Thread-safety: a block's link, the thread that frees the block or guards the list; a list, as
// Span::list in span/layout.h. The key is written once, before any block is linked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"

namespace near {

// Alone on its lines, because every malloc and free on every processor reads it.
struct alignas(128) LinkKey {
  uintptr_t value = 0;
  NEAR_INLINE operator uintptr_t() const { return value; }
};
extern NEAR_HIDDEN LinkKey link_key;

inline constexpr uintptr_t kLinkReach = uintptr_t{1} << 21;

inline bool is_end(uintptr_t place) { return (place & 1) != 0; }

struct Block {
  uintptr_t link;

  uintptr_t address() const { return reinterpret_cast<uintptr_t>(this); }

  void link_to(uintptr_t place) { link = place ^ address() ^ link_key; }
  void link_to(const Block* next) { link_to(next->address()); }
  void link_to_end() { link_to(address() | 1); }

  // next ^ this; kLinkReach or more if the link was overwritten.
  uintptr_t distance() const { return link ^ link_key; }

  // The block after this one; null at the end of the list, and if the link was overwritten.
  Block* next() const {
    const uintptr_t place = distance() ^ address();
    const bool is_block = distance() < kLinkReach && !is_end(place);
    return is_block ? reinterpret_cast<Block*>(place) : nullptr;
  }
};

class FreeList {
 public:
  static constexpr uintptr_t kNoSpan = 1;

  uintptr_t head() const { return head_; }
  bool is_empty() const { return is_end(head()); }
  Block* front() const { return is_empty() ? nullptr : reinterpret_cast<Block*>(head()); }

  // A head of another list of the span, or an end.
  void set(uintptr_t head) { head_ = head; }
  // No block of the span that begins at `start` is left.
  void clear(const char* start) { set(reinterpret_cast<uintptr_t>(start) | 1); }

  // The first block; null if there is none, or if its link was overwritten: then it stays.
  NEAR_INLINE Block* pop() {
    const uintptr_t first = head();
    if (unlikely(is_end(first))) return nullptr;
    auto* block = reinterpret_cast<Block*>(first);
    const uintptr_t distance = block->distance();
    if (unlikely(distance >= kLinkReach)) return nullptr;
    set(distance ^ first);
    return block;
  }

  // True if the block is the first one already. `distance` becomes head ^ `block`: a push asks for
  // it, so that free computes it once.
  NEAR_INLINE bool is_first(const Block* block, uintptr_t& distance) const {
    distance = head_;
    return xor_is_zero(distance, block->address());
  }

  NEAR_INLINE void push(Block* block, uintptr_t distance) {
    block->link = distance ^ link_key;
    publish(block);
  }

  // Pushes blocks that are linked from `first` up to `last`, whose link is written here.
  NEAR_INLINE void splice(Block* first, Block* last) {
    last->link_to(head());
    publish(first);
  }

 private:
  // Another thread may fork at any moment, and the child goes on with this list: it must not find a
  // head without the link that was written before. (On x86 this costs nothing.)
  NEAR_INLINE void publish(const Block* first) {
    std::atomic_ref(head_).store(first->address(), kRelease);  // pairs: forked-list
  }

  uintptr_t head_ = kNoSpan;
};

}  // namespace near

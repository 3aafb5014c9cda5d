// The free blocks of a span; each holds the link to the next.
//
//   link of a block = next ^ block ^ link_key
//   next: the address of the next block, or an odd address, which ends the list: that of its span
//
// The key is random, one for each process. Both addresses lie in one chunk of kLinkReach bytes, so
// link ^ link_key = next ^ block is less than kLinkReach while the link is intact. A program that
// writes to a freed block, or past the end of the block before it, changes the link. Then a pop
// decodes a larger value and does not follow it, unless the writer knows the key or hits one of the
// values that pass (1 in 2^43). So no link leads out of its chunk. A list ends not with null but
// with an odd address in the chunk: this passes the same test, so popping the last block needs no
// slow path; the next pop sees the lowest bit, and its slow path whether the end is the span's.
// docs/decisions/0013-encoded-links.md
//
// A block may be marked (heap/marks.h): then the highest bit of its link is inverted, so that `pop`
// leaves the block where it is, and `pop_marked` takes it.
//
// Invariant: the head of a span's list is a block of the span, or an odd address in its chunk. A
// list without a span holds kNoSpan, and no thread pushes to it.
// Thread-safety: a block's link belongs to the thread that frees the block or guards the list. A
// list is guarded as Span::list (span/layout.h). The key is written once, before any link.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"

namespace near {

// It has cache lines of its own, because every malloc and free on every processor reads it.
struct alignas(128) LinkKey {
  uintptr_t value = 0;
  NEAR_INLINE operator uintptr_t() const { return value; }
};
extern NEAR_HIDDEN LinkKey link_key;

inline constexpr uintptr_t kLinkReach = uintptr_t{1} << 21;

inline bool is_end(uintptr_t place) { return (place & 1) != 0; }

// The end of every list of the span that begins at `start`; another end is damage. It differs in
// four bits from the address of each block, so that no change of one bit of a link gives it.
inline uintptr_t end_of_list(const char* start) { return reinterpret_cast<uintptr_t>(start) | 15; }

struct Block {
  uintptr_t link;

  uintptr_t address() const { return reinterpret_cast<uintptr_t>(this); }

  void link_to(uintptr_t place) { link = place ^ address() ^ link_key; }
  void link_to(const Block* next) { link_to(next->address()); }
  // In a remote list, whose blocks get another end when their owner takes them.
  void link_to_end() { link_to(address() | 1); }
  bool is_linked_to_end() const { return unmarked_distance() == 1; }

  static constexpr uintptr_t kMark = uintptr_t{1} << 63;

  // next ^ this; kLinkReach or more if the link was overwritten, or if the block is marked.
  uintptr_t distance() const { return link ^ link_key; }
  // As distance, and the same if the block is marked.
  uintptr_t unmarked_distance() const { return distance() & ~kMark; }
  // Requires an intact link.
  void set_mark(bool on) { link = (unmarked_distance() | (on ? kMark : 0)) ^ link_key; }

  // The block after this one; null at the end of the list, and if the link was overwritten.
  Block* next() const {
    const uintptr_t place = unmarked_distance() ^ address();
    const bool is_block = unmarked_distance() < kLinkReach && !is_end(place);
    return is_block ? reinterpret_cast<Block*>(place) : nullptr;
  }
};

class FreeList {
 public:
  static constexpr uintptr_t kNoSpan = 1;

  uintptr_t head() const { return head_; }
  // The head for a thread other than the one that pushes: the links from it on can be read.
  uintptr_t published_head() const {
    return AtomicRef<uintptr_t>(const_cast<uintptr_t&>(head_))
        .load(kAcquire);  // pairs: forked-list
  }
  bool is_empty() const { return is_end(head()); }
  Block* front() const { return is_empty() ? nullptr : reinterpret_cast<Block*>(head()); }

  // `head` is the head of another list of the same span, or an odd end.
  void set(uintptr_t head) { head_ = head; }
  // Makes the list empty; its span begins at `start`.
  void clear(const char* start) { set(end_of_list(start)); }
  // True if it has no block although the list that begins there did not end so. False for kNoSpan.
  bool ends_elsewhere(const char* start) const {
    return is_empty() && head() != end_of_list(start) && head() != kNoSpan;
  }

  // Removes and returns the first block. Null if there is none, or if its link was overwritten or
  // it is marked; then the block stays.
  NEAR_INLINE Block* pop() {
    const uintptr_t first = head();
    if (unlikely(is_end(first))) return nullptr;
    auto* block = reinterpret_cast<Block*>(first);
    const uintptr_t distance = block->distance();
    if (unlikely(distance >= kLinkReach)) return nullptr;
    set(distance ^ first);
    return block;
  }

  // Removes and returns the first block, without its mark. Null if it is not marked.
  NEAR_NOINLINE Block* pop_marked() {
    Block* block = front();
    if (block == nullptr || (block->distance() ^ Block::kMark) >= kLinkReach) return nullptr;
    block->set_mark(false);
    return pop();
  }

  // True if `block` is the first one already. `distance` becomes head ^ `block`, which `push`
  // takes, so that free computes it once.
  NEAR_INLINE bool is_first(const Block* block, uintptr_t& distance) const {
    distance = head_;
    return xor_is_zero(distance, block->address());
  }

  NEAR_INLINE void push(Block* block, uintptr_t distance) {
    block->link = distance ^ link_key;
    publish(block);
  }

  // Pushes blocks that are linked from `first` to `last`. The link of `last` is written here.
  NEAR_INLINE void splice(Block* first, Block* last) {
    last->link_to(head());
    publish(first);
  }

 private:
  // Another thread may fork at any moment, and the child goes on with this list. So the child must
  // not find a new head whose link is not yet written. (On x86 the release costs nothing.)
  NEAR_INLINE void publish(const Block* first) {
    AtomicRef<uintptr_t>(head_).store(first->address(), kRelease);  // pairs: forked-list
  }

  uintptr_t head_ = kNoSpan;
};

}  // namespace near

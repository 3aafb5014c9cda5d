// What can be done with one span: carve it, look at its pages, check it.
// Thread-safety: the span's owner (or whoever holds a threadless owner's lock).
#pragma once

#include "span/layout.h"

namespace near {

// Makes a run of slices a span of `size_class` with all blocks uncarved. Owner, list and count are
// the heap's business.
void form_span(Span& span, unsigned size_class, bool clean);

// Pushes the blocks of the lowest uncarved pages onto `list`: of one page, or of several if they
// were touched before, so that this costs no fault. The span has an uncarved page.
void carve(Span& span, FreeList& list);

// What can be wrong with a free list, and where.
enum class Flaw : uint8_t {
  none,
  overwritten,  // the link in `block` was overwritten
  stray,        // the link in `block` leads to no block of the span
  ring,         // a block is in the list twice; `block` is one of them, or near
};
struct Damage {
  Flaw flaw;
  const void* block;
  bool present() const { return flaw != Flaw::none; }
};

// In words, for a message.
const char* describe(Flaw flaw);

// The blocks of a span's list, one after another. Follows no link that leads to no block of the
// span, and ends after as many blocks as the span has.
class ListWalk {
 public:
  ListWalk(const Span& span, const FreeList& list)
      : start_(reinterpret_cast<uintptr_t>(span.start)),
        exact_(span.shape().exact),
        bytes_(size_t{span.shape().capacity} * span.shape().size),
        left_(span.shape().capacity),
        capacity_(left_),
        at_(list.head()) {}

  // Null after the last. The link of the block was read already: the caller may change it.
  NEAR_INLINE Block* next() {
    if (is_end(at_)) return nullptr;
    const uintptr_t offset = at_ - start_;
    const bool is_block = offset < bytes_ && starts_block(uint64_t{offset}, exact_);
    if (unlikely(!is_block)) return end(Flaw::stray, before_ != 0 ? before_ : at_);
    if (unlikely(left_ == 0)) return end(Flaw::ring, at_);
    auto* block = reinterpret_cast<Block*>(at_);
    const uintptr_t distance = block->distance();
    if (unlikely(distance >= kLinkReach)) return end(Flaw::overwritten, at_);
    before_ = at_;
    at_ ^= distance;
    left_--;
    return block;
  }

  uint32_t count() const { return capacity_ - left_; }  // of the blocks so far
  const Damage& damage() const { return damage_; }

 private:
  NEAR_COLD Block* end(Flaw flaw, uintptr_t block);

  const uintptr_t start_;
  const uint64_t exact_;
  const size_t bytes_;  // of all blocks
  uint32_t left_;       // blocks that the list can still have
  const uint32_t capacity_;
  uintptr_t at_;          // the next block
  uintptr_t before_ = 0;  // the block before it
  Damage damage_ = {Flaw::none, nullptr};
};

// Gives the pages on which every block is free back to the system: takes their blocks off `local`
// and marks them uncarved. Returns the bytes given back. The span is cold and its blocks are
// smaller than a page. If the list is damaged, that is told, nothing is given back, and the list is
// of no use any more.
size_t purge_free_pages(Span& span, Damage& damage);

// How many blocks hang from `list` of this span: those before the damage if there is any.
uint32_t count_list(const Span& span, const FreeList& list);

// How many blocks are uncarved.
uint32_t count_uncarved(const Span& span);

// The free blocks of a span whose list is `list`, the uncarved ones included.
inline uint32_t count_free(const Span& span, const FreeList& list) {
  return count_list(span, list) + count_uncarved(span);
}

// True if `block` is the start of a block of this span.
bool is_block(const Span& span, const void* block);

}  // namespace near

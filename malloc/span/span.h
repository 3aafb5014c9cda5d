// Operations on one span: carve it, give its free pages back, check it.
// Thread-safety: the thread of the span's owner, or a holder of the lock of an owner without a
// thread.
#pragma once

#include "span/layout.h"

namespace near {

// Makes a run of slices a span of `size_class` with all blocks uncarved. The heap sets owner, list
// and count.
void form_span(Span& span, unsigned size_class);

// Pushes the blocks of the lowest uncarved unit onto `list`, or of several units if they were
// touched before, so that this costs no page fault. The span must have an uncarved unit.
void carve(Span& span, FreeList& list);

// A fault in a free list, and where it is.
enum class Flaw : uint8_t {
  none,
  overwritten,  // the link in `block` was overwritten
  stray,        // the link in `block` leads to no block of the span
  ring,         // a block is in the list twice; `block` is that block, or one near it in the list
};
struct Damage {
  Flaw flaw;
  const void* block;
  bool present() const { return flaw != Flaw::none; }
};

// Describes the flaw for a message.
const char* describe(Flaw flaw);

// Visits the blocks of a span's list one after another. It follows only links that lead to a block
// of the span, and stops after as many blocks as the span has.
class ListWalk {
 public:
  ListWalk(const Span& span, const FreeList& list)
      : start_(reinterpret_cast<uintptr_t>(span.start)),
        exact_(span.shape().exact),
        bytes_(size_t{span.shape().capacity} * span.shape().size),
        left_(span.shape().capacity),
        capacity_(left_),
        end_(end_of_list(span.start)),
        at_(list.head()) {
    if (span.kind != SpanKind::blocks || span.ghost.block == 0) return;
    ghost_ = start_ + span.ghost.block - 1;
    after_ghost_ = span.ghost.next == 0 ? end_ : start_ + span.ghost.next - 1;
  }

  // Null after the last. The link of the returned block was read already: the caller may change it.
  NEAR_INLINE Block* next() {
    if (unlikely(at_ == ghost_)) at_ = after_ghost_;
    if (is_end(at_)) return likely(at_ == end_ || at_ == FreeList::kNoSpan) ? nullptr : end_early();
    const uintptr_t offset = at_ - start_;
    const bool is_block = offset < bytes_ && starts_block(uint64_t{offset}, exact_);
    if (unlikely(!is_block)) return end(Flaw::stray, before_ != 0 ? before_ : at_);
    if (unlikely(left_ == 0)) return end(Flaw::ring, at_);
    auto* block = reinterpret_cast<Block*>(at_);
    const uintptr_t distance = block->unmarked_distance();
    if (unlikely(distance >= kLinkReach)) return end(Flaw::overwritten, at_);
    before_ = at_;
    at_ ^= distance;
    left_--;
    return block;
  }

  uint32_t count() const { return capacity_ - left_; }  // blocks visited so far
  const Damage& damage() const { return damage_; }

 private:
  NEAR_COLD Block* end(Flaw flaw, uintptr_t block);
  NEAR_COLD Block* end_early() {
    return end(Flaw::overwritten, before_ != 0 ? before_ : at_ & ~uintptr_t{1});
  }

  const uintptr_t start_;
  const uint64_t exact_;
  const size_t bytes_;  // of all blocks
  uint32_t left_;       // blocks that the list can still have
  const uint32_t capacity_;
  const uintptr_t end_;
  uintptr_t at_;          // the next block
  uintptr_t before_ = 0;  // the block before it
  uintptr_t ghost_ = 0;   // it is passed over
  uintptr_t after_ghost_ = 0;
  Damage damage_ = {Flaw::none, nullptr};
};

// Gives the pages on which every block is free back to the system: removes their blocks from
// `local` and marks them uncarved. Returns the bytes given back. The span must be cold and its
// blocks smaller than a page. If the list is damaged, `damage` says how, no page is given back, and
// the list must not be used any more.
size_t purge_free_pages(Span& span, Damage& damage);

// As purge_free_pages, for a thread that holds the lock of the span's owner, while the owner's
// thread may be pushing on `local`; for any class. Blocks whose first page goes become uncarved.
//
// Why it needs no word of the owner's thread: while the lock is held, that thread only pushes on
// the list of a cold span. A push reads the head, writes the link of a block that was live, and
// writes the head. So every block that was on the list when the head was read stays free, and no
// other thread touches its link. Only the head itself cannot be changed: a push that is in progress
// may have read it, and will link to the block that was first. If that block's page is given back,
// the block becomes the span's ghost: uncarved, passed over by walks, and taken off the list before
// any block is popped. tests/model/cold_list_model.cc
size_t purge_behind_first(Span& span, Damage& damage);

// Takes the ghost off the list of a cold span. Called with the owner's rights, before a block is
// popped.
NEAR_COLD void drop_ghost_slow(Span& span);
inline void drop_ghost(Span& span) {
  if (unlikely(span.ghost.block != 0)) drop_ghost_slow(span);
}

// How many blocks of this span are on `list`; if it is damaged, only those before the damage.
uint32_t count_list(const Span& span, const FreeList& list);

// How many blocks start in the units; bit i: unit i.
uint32_t count_blocks(const Span& span, uint32_t units);
// How many blocks are uncarved.
inline uint32_t count_uncarved(const Span& span) { return count_blocks(span, span.uncarved); }

// How many blocks of a span whose list is `list` are free, including the uncarved ones.
inline uint32_t count_free(const Span& span, const FreeList& list) {
  return count_list(span, list) + count_uncarved(span);
}

// True if `block` is the start of a block of this span.
bool is_block(const Span& span, const void* block);

}  // namespace near

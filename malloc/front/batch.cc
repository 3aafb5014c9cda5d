// Consecutive blocks of a batch that lie in one span of this thread's heap form a chain, which is
// freed by one splice and one update of the count. Where all threads use magazines
// (heap/magazines.h), blocks of other owners' spans go into the thread's, as in free. Otherwise the
// batch collects them in one chain per span, in a small table on the stack. When the table is full,
// and at the end, each chain is handed over with one atomic operation. A chain is linked as single
// frees would link it: the block freed last comes first. docs/decisions/0008-free-batch.md says why
// blocks of own spans need no table.
//
// Invariant: a block in a chain counts as live until the chain is handed over, so its span can
// neither leave nor lose pages, and neither the span's list nor its count includes the block. While
// the table holds n chains, n slots are taken, at most half of them.
// Thread-safety: only the calling thread; the table is on its stack.
#include "front/batch.h"

#include "front/front.h"
#include "front/invalid.h"
#include "front/remote.h"
#include "node/memory.h"
#include "span/span.h"

namespace near {
namespace {

using Chain = RemoteList<Block>::Chain;

// Returns the chain without its last block, whose link is not written. It is shorter still if the
// program overwrote the link of one of its blocks.
NEAR_COLD Chain without_last(const Chain& chain) {
  Block* last = chain.first;
  uint32_t count = 1;
  for (; count < chain.count - 1 && last->next() != nullptr; count++) last = last->next();
  return {chain.first, last, count};
}

// `beyond` blocks of a chain were freed after the one that ended the span's count.
NEAR_NOINLINE void reach_count_beyond(Span& span, uint32_t beyond) {
  Marks& marks = current_heap->marks;
  marks.set_beyond(beyond);
  reach_count(&span);
  marks.set_beyond(0);
}

// Returns false and does nothing if the last block of the chain is the head of the list, or a spare
// block.
NEAR_INLINE bool splice_local(Span& span, const Chain& chain) {
  if (unlikely(span.list->head() == chain.last->address())) return false;
  if (unlikely(current_heap->is_spare(span, chain.last))) return false;
  span.list->splice(chain.first, chain.last);
  const uint32_t left = span.frees.remaining();
  if (unlikely(span.frees.tick(chain.count))) reach_count_beyond(span, chain.count - left);
  return true;
}

NEAR_INLINE bool release_chain(Span& span, const Chain& chain) {
  // relaxed: as on the fast path of free
  const bool local = span.owner.load(kRelaxed) == current_heap;
  return local ? splice_local(span, chain)
               : release_to_span(span, SpanBlocks{span.start}, chain, span.remote.look());
}

// The last block is a double free: reports it, and frees the others.
NEAR_COLD void release_doubtful(Span& span, Chain chain) {
  do {
    report_invalid(chain.last, "double free");
    if (chain.count == 1) return;
    chain = without_last(chain);
  } while (!release_chain(span, chain));
}

NEAR_INLINE void hand_over(Span& span, const Chain& chain) {
  if (unlikely(!release_chain(span, chain))) release_doubtful(span, chain);
}

// The place of a block, found from its address. `span` is null if no block of a class is there.
struct Place {
  Span* span;
  uint32_t offset;  // of the block in its span
};

// Finds a block in a later slice of its span or in an added window.
NEAR_NOINLINE Place find_slowly(const void* pointer) {
  Span* span = span_of(pointer);
  if (span != nullptr && span->kind == SpanKind::inside) span -= span->back;
  if (span == nullptr || span->kind != SpanKind::blocks || !is_block(*span, pointer))
    return {nullptr, 0};
  const auto offset = static_cast<const char*>(pointer) - span->start;
  return {span, static_cast<uint32_t>(offset)};
}

// Works as the fast path of free. It does not test whether the address lies in the waste behind the
// last block, and does not touch line 1 of the descriptor.
NEAR_INLINE Place find(const void* pointer) {
  const size_t place = offset_in_reservation(pointer);
  if (unlikely(place >= reserved_bytes)) return find_slowly(pointer);
  Span* span = &reserved_spans[place >> kSliceShift];
  if (unlikely(span->kind != SpanKind::blocks)) return find_slowly(pointer);
  const auto offset = static_cast<uint16_t>(reinterpret_cast<uintptr_t>(pointer));
  if (unlikely(!starts_block(uint32_t{offset}, kSizeClasses[span->size_class].reciprocal))) {
    return {nullptr, 0};
  }
  return {span, offset};
}

class Batch {
 public:
  NEAR_INLINE void add(void* pointer) {
    const Place place = find(pointer);
    if (unlikely(place.span == nullptr)) return add_unusual(pointer);
    auto* block = static_cast<Block*>(pointer);
    // relaxed: as on the fast path of free
    if (place.span->owner.load(kRelaxed) == current_heap) return add_own(place.span, block);
    add_remote(place, block);
  }

  // Hands all chains over.
  void flush() {
    if (own_.span != nullptr) hand_over_own();
    for (unsigned i = 0; i < used_; i++) hand_over(*groups_[i].span, groups_[i].chain);
    made_ += used_;
    remote_ += used_;
    used_ = 0;
  }

  size_t groups() const { return made_; }
  // The groups of other owners' spans.
  size_t remote_groups() const { return remote_; }

 private:
  static constexpr unsigned kGroups = 64;
  static constexpr unsigned kSlotBits = 7;
  static constexpr unsigned kSlots = 1 << kSlotBits;
  static_assert(2 * kGroups <= kSlots && kGroups <= UINT8_MAX);

  struct Group {
    Span* span;
    Chain chain;
    uint32_t end;  // of the span's blocks; unused for own spans, as on the fast path of free
  };

  NEAR_INLINE void add_own(Span* span, Block* block) {
    if (own_.span == span) return append(own_, block);
    if (likely(own_.span != nullptr)) hand_over_own();
    if (unlikely(!record_freed(span, block))) return report_invalid(block, "double free");
    own_ = {span, {block, block, 1}, 0};
  }

  NEAR_INLINE void hand_over_own() {
    hand_over(*own_.span, own_.chain);
    own_.span = nullptr;
    made_++;
  }

  NEAR_INLINE void add_remote(const Place& place, Block* block) {
    if (uses_magazines()) return release_alone(place, block);
    if (used_ == 0) clear_slots();
    const unsigned slot = slot_of(*place.span);
    if (slots_[slot] == 0) return open(place, slot, block);
    Group& group = groups_[slots_[slot] - 1];
    if (unlikely(place.offset >= group.end)) return add_unusual(block);
    append(group, block);
  }

  // Frees one block as free does; it counts as a group.
  NEAR_INLINE void release_alone(const Place& place, Block* block) {
    const auto seen = place.span->remote.look();
    const SizeClass& shape = place.span->shape();
    if (unlikely(!seen.is_open() || place.offset >= shape.capacity * shape.size)) {
      return add_unusual(block);
    }
    made_++;
    remote_++;
    if (unlikely(!release_remote(*place.span, SpanBlocks{place.span->start}, block, seen))) {
      report_invalid(block, "double free");
    }
  }

  NEAR_INLINE static void append(Group& group, Block* block) {
    if (unlikely(group.chain.first == block) || unlikely(!record_freed(group.span, block)))
      return report_invalid(block, "double free");
    block->link_to(group.chain.first);
    group.chain.first = block;
    group.chain.count++;
  }

  // Returns the slot of the span's group, or the slot that its new group will get. [Knuth, TAOCP 3,
  // 6.4: linear probing]
  unsigned slot_of(const Span& span) const {
    unsigned slot = hash_slot(number_of(span), kSlotBits);
    while (slots_[slot] != 0 && groups_[slots_[slot] - 1].span != &span) slot = (slot + 1) % kSlots;
    return slot;
  }

  NEAR_INLINE void clear_slots() {
    for (uint8_t& each : slots_) each = 0;
  }

  // Opens a group with the first block of a span.
  NEAR_NOINLINE void open(Place place, unsigned slot, Block* block) {
    const SizeClass& shape = place.span->shape();
    const uint32_t end = shape.capacity * shape.size;
    if (unlikely(place.offset >= end)) return add_unusual(block);
    if (unlikely(!record_freed(place.span, block))) return report_invalid(block, "double free");
    if (unlikely(used_ == kGroups)) {
      flush();
      clear_slots();
      slot = slot_of(*place.span);
    }
    groups_[used_] = {place.span, {block, block, 1}, end};
    slots_[slot] = static_cast<uint8_t>(++used_);
  }

  // A large block, another allocator's, or none: `release_slow` handles it, as in free.
  NEAR_COLD void add_unusual(void* pointer) {
    release_slow(pointer);
    made_++;
  }

  Group own_ = {};         // the open chain of an own span; none if its span is null
  Group groups_[kGroups];  // the first used_ are in use
  uint8_t slots_[kSlots];  // number of the group + 1, or 0; valid once there was a group
  unsigned used_ = 0;
  size_t made_ = 0;
  size_t remote_ = 0;
};

void note(size_t blocks, size_t groups, size_t remote) {
  Heap& heap = *current_heap;
  heap.add(heap.batches.calls, 1);
  heap.add(heap.batches.blocks, blocks);
  heap.add(heap.batches.groups, groups);
  if (remote != 0) heap.add(heap.batches.remote, remote);
}

// Prefetches the lines that a later free will write. Any address is allowed.
NEAR_INLINE void prefetch(const void* pointer) {
  __builtin_prefetch(pointer, 1);
  __builtin_prefetch(&reserved_spans[offset_in_reservation(pointer) >> kSliceShift], 1);
}

}  // namespace

size_t release_batch(void* const* blocks, size_t count) {
  constexpr size_t kAhead = 8;
  if (count == 1) {
    const size_t one = blocks[0] != nullptr ? 1 : 0;
    const Span* const span = one != 0 ? find(blocks[0]).span : nullptr;
    // relaxed: as on the fast path of free
    const bool is_remote = span != nullptr && span->owner.load(kRelaxed) != current_heap;
    release(blocks[0]);
    note(one, one, is_remote ? 1 : 0);
    return one;
  }
  Batch batch;
  size_t nulls = 0;
  for (size_t i = 0; i < count; i++) {
    if (i + kAhead < count) prefetch(blocks[i + kAhead]);
    if (likely(blocks[i] != nullptr)) {
      batch.add(blocks[i]);
    } else {
      nulls++;
    }
  }
  batch.flush();
  note(count - nulls, batch.groups(), batch.remote_groups());
  return batch.groups();
}

}  // namespace near

// Blocks are collected in chains, one for each span, in a small table on the stack. A full table,
// and the end, hand every chain over: to the list of an own span with one splice and one count, to
// another owner's with one atomic operation. A chain is linked as frees one by one would link it:
// the block freed last comes first.
//
// Invariant: a block in a chain counts as live until the chain is handed over, so its span can
// neither leave nor lose pages, nor does its list or count tell of it. While the table holds n
// chains, n slots are taken, at most half of them.
// Who may touch it: the calling thread, on its stack.
#include "front/batch.h"

#include "front/front.h"
#include "front/invalid.h"
#include "front/remote.h"
#include "node/memory.h"
#include "span/span.h"

namespace near {
namespace {

using Chain = RemoteList<Block>::Chain;

// A chain without its last block, whose link is not written.
NEAR_COLD Chain without_last(const Chain& chain) {
  Block* last = chain.first;
  for (uint32_t i = 2; i < chain.count; i++) last = last->next;
  return {chain.first, last, chain.count - 1};
}

// False, and nothing is done, if the last block of the chain is the head of the list.
bool splice_local(Span& span, const Chain& chain) {
  Block* head = *span.list;
  if (unlikely(head == chain.last)) return false;
  chain.last->next = head;
  *span.list = chain.first;
  if (unlikely(span.frees.tick(chain.count))) current_heap->on_count(&span);
  return true;
}

void hand_over(Span& span, Chain chain) {
  // relaxed: as on the fast path of free
  const bool local = span.owner.load(kRelaxed) == current_heap;
  while (unlikely(!(local ? splice_local(span, chain) : release_remote(span, chain)))) {
    report_invalid(chain.last, "double free");
    if (chain.count == 1) return;
    chain = without_last(chain);
  }
}

// The span of a class that `pointer` is a block of; null if it is anything else.
NEAR_INLINE Span* span_of_block(const void* pointer) {
  const size_t place = offset_in_reservation(pointer);
  Span* span =
      likely(place < reserved_bytes) ? &reserved_spans[place >> kSliceShift] : span_of(pointer);
  if (unlikely(span == nullptr)) return nullptr;
  // From the address alone, as spans begin at slices: line 1 of a local span is not touched.
  uint64_t offset = reinterpret_cast<uintptr_t>(pointer) % kSliceSize;
  if (span->kind == SpanKind::inside) {
    offset += span->back * kSliceSize;
    span -= span->back;
  }
  if (unlikely(span->kind != SpanKind::blocks)) return nullptr;
  const SizeClass& shape = span->shape();
  const bool starts = starts_block(offset, shape.exact) && offset < shape.capacity * shape.size;
  return likely(starts) ? span : nullptr;
}

class Batch {
 public:
  NEAR_INLINE void add(void* pointer) {
    blocks_++;
    Span* span = span_of_block(pointer);
    if (unlikely(span == nullptr)) return add_unusual(pointer);
    auto* block = static_cast<Block*>(pointer);
    const unsigned slot = slot_of(*span);
    Chain* chain = slots_[slot] != 0 ? &groups_[slots_[slot] - 1].chain : nullptr;
    if (unlikely((chain != nullptr && chain->first == block) || !note_freed(span, block)))
      return report_invalid(block, "double free");
    if (chain == nullptr) return open(span, slot, block);
    block->next = chain->first;
    chain->first = block;
    chain->count++;
  }

  // Hands all chains over.
  void flush() {
    for (unsigned i = 0; i < used_; i++) hand_over(*groups_[i].span, groups_[i].chain);
    made_ += used_;
    used_ = 0;
  }

  size_t blocks() const { return blocks_; }
  size_t groups() const { return made_; }

 private:
  static constexpr unsigned kGroups = 64;
  static constexpr unsigned kSlotBits = 7;
  static constexpr unsigned kSlots = 1 << kSlotBits;
  static_assert(2 * kGroups <= kSlots && kGroups <= UINT8_MAX);

  struct Group {
    Span* span;
    Chain chain;
  };

  // The slot of the span's group, or the one that it shall get. [Knuth, TAOCP 3, 6.4: Fibonacci
  // hashing, linear probing]
  unsigned slot_of(const Span& span) const {
    const auto key = reinterpret_cast<uintptr_t>(&span) / alignof(Span);
    unsigned slot = static_cast<unsigned>(key * 0x9e3779b97f4a7c15 >> (64 - kSlotBits));
    while (slots_[slot] != 0 && groups_[slots_[slot] - 1].span != &span) slot = (slot + 1) % kSlots;
    return slot;
  }

  void open(Span* span, unsigned slot, Block* block) {
    if (unlikely(used_ == kGroups)) {
      flush();
      for (uint8_t& each : slots_) each = 0;
      slot = slot_of(*span);
    }
    groups_[used_] = {span, {block, block, 1}};
    slots_[slot] = static_cast<uint8_t>(++used_);
  }

  // Large, another allocator's, or none: as free does it.
  NEAR_COLD void add_unusual(void* pointer) {
    release_slow(pointer);
    made_++;
  }

  Group groups_[kGroups];       // the first used_
  uint8_t slots_[kSlots] = {};  // number of the group + 1, or 0
  unsigned used_ = 0;
  size_t blocks_ = 0;
  size_t made_ = 0;
};

void note(const Batch& batch) {
  const auto add = [own = has_heap()](Atomic<uint64_t>& sum, uint64_t more) {
    // relaxed: statistics; a heap has one writer, those that stand for having none have many
    if (likely(own)) return sum.store(sum.load(kRelaxed) + more, kRelaxed);
    sum.fetch_add(more, kRelaxed);  // relaxed: as above
  };
  Heap::Batches& batches = current_heap->batches;
  add(batches.calls, 1);
  add(batches.blocks, batch.blocks());
  add(batches.groups, batch.groups());
}

}  // namespace

size_t release_batch(void* const* blocks, size_t count) {
  Batch batch;
  for (size_t i = 0; i < count; i++) {
    if (likely(blocks[i] != nullptr)) batch.add(blocks[i]);
  }
  batch.flush();
  note(batch);
  return batch.groups();
}

}  // namespace near

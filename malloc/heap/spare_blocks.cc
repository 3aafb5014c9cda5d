// When a heap keeps spare blocks, and when their spans get them back: as soon as the class has
// fewer spans than its spare blocks need, at a look at a heap that has shrunk or that the purge
// thread asks for, at a flush, and before a parked heap gives a span of the class away.
// Thread-safety: only the heap's owner, with the lock held.
#include "heap/spare_blocks.h"

#include "heap/damage.h"
#include "heap/heap.h"
#include "node/memory.h"
#include "span/span.h"

namespace near {

// As settle, for a span in which a block was just freed: that one may become a spare block.
void Heap::settle_or_keep(Span& span) {
  const unsigned size_class = span.size_class;
  if (keep_spare(span)) return;
  settle(span, span.frees.freed());
  return_spares(size_class, SpareBlocks::share_of(spans_[size_class]));
}

// Keeps the block that was freed last as a spare one, if its span would be filed because of it
// alone: true if so.
bool Heap::keep_spare(Span& span) {
  const unsigned size_class = span.size_class;
  if (is_hot(span)) return false;
  const bool is_double_free = spares_.has(size_class, span.local.front());
  const bool is_full_otherwise = !span.reusable && span.frees.freed() == span.shape().reuse_at;
  const bool has_room = spares_.count(size_class) < SpareBlocks::share_of(spans_[size_class]);
  if (!is_double_free && !(is_full_otherwise && has_room)) return false;
  drop_ghost(span);
  Block* block = span.local.pop();
  if (block == nullptr) return false;  // damaged: it is found where the span becomes hot
  span.frees.untick();
  if (unlikely(is_double_free)) {
    record_damage({Flaw::ring, block});
  } else {
    spares_.put(size_class, block);
    count_own_frees(span, 1);
  }
  return true;
}

// Gives the spare blocks of a class back to their spans, except so many.
void Heap::return_spares(unsigned size_class, uint32_t keep) {
  while (spares_.count(size_class) > keep) {
    Block* block = spares_.take(size_class);
    Span& span = span_with(block);
    span.list->splice(block, block);
    span.counted++;  // keep_spare has counted it
    if (span.frees.tick(uint32_t{1})) settle(span, span.frees.freed());
  }
}

}  // namespace near

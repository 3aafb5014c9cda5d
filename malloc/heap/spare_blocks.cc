// When a heap keeps spare blocks, and when their spans get them back: as soon as the class has
// fewer spans than its spare blocks need, as their span becomes hot, at a look at a heap that has
// shrunk or that the purge thread asks for, at a flush, and before a parked heap gives a span of
// the class away.
// Thread-safety: the owner's rights and, except `end_spares_of`, the lock.
#include "heap/spare_blocks.h"

#include "heap/heap.h"
#include "node/memory.h"
#include "span/span.h"

namespace near {

// Gives the spare blocks of a class back to their spans, except so many.
void Heap::return_spares(unsigned size_class, uint32_t keep) {
  if (!SpareBlocks::is_for(size_class)) return;
  SpareBlocks::OfClass& spares = spares_.of(size_class);
  while (spares.count() > keep) {
    Block* block = spares.take();
    Span& span = span_with(block);
    span.list->splice(block, block);
    span.counted++;  // keep_spare has counted it
    if (span.frees.tick(uint32_t{1})) settle(span, span.frees.freed());
  }
}

bool Heap::has_spare_of(const Span& span) const {
  return SpareBlocks::is_for(span.size_class) &&
         spares_.of(span.size_class).any_within(span.start, span.bytes());
}

// The span's next blocks go back to it at once, if none of its blocks is a spare one.
void Heap::end_spares_of(Span& span) {
  if (!has_spare_of(span)) span.set_fast_frees(true);
}

// Moves the spare blocks of a cold span to its list. Returns how many; its count is left alone.
uint32_t Heap::take_back_spares(Span& span) {
  if (!SpareBlocks::is_for(span.size_class)) return 0;
  uint32_t blocks = 0;
  SpareBlocks::OfClass& spares = spares_.of(span.size_class);
  while (Block* block = spares.take_within(span.start, span.bytes())) {
    span.local.splice(block, block);
    blocks++;
  }
  return blocks;
}

}  // namespace near

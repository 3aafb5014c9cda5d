// The frontend: allocation and deallocation, without huge objects. The fast paths are here; what
// is rare, and all of it for threads without a TLAB, in frontend.cc.
// Invariant: who touches a hot span or a local free list is the span's owner, and with CLABs holds
// its lock.
// Thread-safety: any thread. [Aigner15 §3.4, listing 3]
#pragma once

#include "designs/scalloc/lab.h"
#include "designs/scalloc/span.h"
#include "designs/scalloc/span_pool.h"

namespace near::design::scalloc {

// The local free list of the hot span is empty, or the thread has no TLAB.
NEAR_COLD void* allocate_slow(unsigned size_class);

// A remote free, a free without a TLAB, an inner or a wrong pointer.
NEAR_NOINLINE void deallocate_slow(void* pointer);

// After a local free into a span that is not hot: the state may change.
NEAR_NOINLINE void settle_and_pool(Lab& lab, Span& span);

// The class keeps no hot span.
void drop_hot(Lab& lab, unsigned size_class);

// The calling thread's LAB keeps no span in which no block is in use.
void drop_empty_spans();

// The start of the block that a live pointer belongs to; null if there is none.
void* start_of_block(const void* pointer);

NEAR_INLINE void* allocate_block(unsigned size_class) {
  void* block = current_lab->hot[size_class]->take();
  return likely(block != nullptr) ? block : allocate_slow(size_class);
}

// Any thread, in the LAB of the span's owner.
NEAR_INLINE void free_local(Lab& lab, Span& span, Block* block) {
  if (likely(span.epoch.is_hot_for_owner())) return span.local.push_hot(block);
  const int32_t event_at = span.event_at.load(kRelaxed);  // relaxed: the owner assigned it
  const int32_t free = free_cold(span, block, policy.asymmetric);
  if (unlikely(free >= event_at)) settle_and_pool(lab, span);
}

// A pointer into the arena.
NEAR_INLINE void deallocate_block(void* pointer) {
  Span& span = *span_of(pointer);
  Lab& lab = *current_lab;
  // relaxed: who finds its own owner there wrote it, or adopted the span
  if (unlikely(span.owner.load(kRelaxed) != lab.owner.load(kRelaxed) ||
               !span.holds(span.offset_of(pointer)) ||
               span.local.is_head(static_cast<Block*>(pointer)))) {
    return deallocate_slow(pointer);
  }
  free_local(lab, span, static_cast<Block*>(pointer));
}

}  // namespace near::design::scalloc

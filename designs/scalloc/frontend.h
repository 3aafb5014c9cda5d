// The frontend: allocation and deallocation, except huge objects. The fast paths are here; rare
// cases, and all paths of threads without a TLAB, are in frontend.cc.
// Invariant: only the span's owner touches a hot span or a local free list; with CLABs it holds the
// LAB's lock.
// Thread-safety: any thread. [Aigner15 §3.4, listing 3]
#pragma once

#include "designs/scalloc/lab.h"
#include "designs/scalloc/span.h"
#include "designs/scalloc/span_pool.h"

namespace near::design::scalloc {

// Called when the local free list of the hot span is empty, or the thread has no TLAB.
NEAR_COLD void* allocate_slow(unsigned size_class);

// Called for a remote free, a free without a TLAB, an inner or a wrong pointer.
NEAR_NOINLINE void deallocate_slow(void* pointer);

// Called after a local free into a span that is not hot: the state may change.
NEAR_NOINLINE void settle_and_pool(Lab& lab, Span& span);

// Leaves the LAB without a hot span of the class.
void drop_hot(Lab& lab, unsigned size_class);

// Removes the spans without a block in use from the calling thread's LAB.
void drop_empty_spans();

// The start of the block that contains a live pointer; null if there is none.
void* start_of_block(const void* pointer);

NEAR_INLINE void* allocate_block(unsigned size_class) {
  void* block = current_lab->hot[size_class]->take();
  return likely(block != nullptr) ? block : allocate_slow(size_class);
}

// Called by any thread, for the LAB of the span's owner.
NEAR_INLINE void free_local(Lab& lab, Span& span, Block* block) {
  if (likely(span.epoch.is_hot_for_owner())) return span.local.push_hot(block);
  const int32_t event_at = span.event_at.load(kRelaxed);  // relaxed: the owner assigned it
  const int32_t free = free_cold(span, block, settings.asymmetric);
  if (unlikely(free >= event_at)) settle_and_pool(lab, span);
}

// Frees a pointer into the arena.
NEAR_INLINE void deallocate_block(void* pointer) {
  Span& span = *span_of(pointer);
  Lab& lab = *current_lab;
  // relaxed: a thread that finds its own owner word there wrote it, or adopted the span
  if (unlikely(span.owner.load(kRelaxed) != lab.owner.load(kRelaxed) ||
               !span.holds(span.offset_of(pointer)) ||
               span.local.is_head(static_cast<Block*>(pointer)))) {
    return deallocate_slow(pointer);
  }
  free_local(lab, span, static_cast<Block*>(pointer));
}

}  // namespace near::design::scalloc

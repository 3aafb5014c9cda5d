// How a heap takes back the blocks of its spans that other threads freed.
// Thread-safety: only the heap's owner, with the lock held.
#include "base/assert.h"
#include "heap/damage.h"
#include "heap/heap.h"
#include "platform/probe.h"

namespace near {

void Heap::drain() {
  for (Span* span = inbox_.take_all(); span != nullptr;) {
    Span* rest = span->pending_next;
    collect_remote(*span);
    span = rest;
  }
}

void Heap::collect_remote(Span& span) {
  const uint32_t count = take_remote(span);
  if (is_hot(span) && span.size_class < kSmallClasses) return;
  settle(span, span.frees.freed() + count);
}

// Moves the blocks that other threads freed to the span's own list. Returns how many.
uint32_t Heap::take_remote(Span& span) {
  const auto chain = span.remote.take(SpanBlocks{span.start});
  NEAR_ASSERT(chain.count > 0);
  NEAR_PROBE("remote_taken", id(), chain.count, span.shape().size);
  tally(returns.remote, chain.count);
  if (unlikely(!chain.last->is_linked_to_end())) record_damage({Flaw::overwritten, chain.last});
  span.list->splice(chain.first, chain.last);
  marks.add(span, chain.first, chain.count);
  return chain.count;
}

}  // namespace near

// Frees blocks of a span that this thread's heap does not own.
// Thread-safety: any thread that holds the blocks.
#pragma once

#include "base/compiler.h"
#include "front/held.h"
#include "front/thread.h"
#include "heap/delivery.h"

namespace near {

// Frees the blocks of `chain` into their span. `blocks` begins at the span's first block; `seen` is
// the result of span.remote.look(). On a double free (`chain.last` is the head of the list, or the
// list is closed) it returns false and does nothing.
NEAR_INLINE bool release_to_span(Span& span, SpanBlocks blocks,
                                 const RemoteList<Block>::Chain& chain,
                                 RemoteList<Block>::Seen seen) {
  const auto pushed = deliver(span, blocks, chain, seen);
  if (unlikely(pushed.repeated)) return false;
  count_freed(pushed.node, chain.count);
  if (pushed.first && unlikely(!purge_signal.present())) look_after_parked();
  return true;
}

// Puts the block into the thread's magazine, or, if the thread cannot use one now, frees it into
// its span. False on a double free that is noticed.
NEAR_INLINE bool release_remote(Span& span, SpanBlocks blocks, Block* block,
                                RemoteList<Block>::Seen seen) {
  if (unlikely(!record_freed(&span, block))) return false;
  if (likely(uses_magazines() && !is_inside() && can_have_heap())) {
    const auto put = current_heap->put_away(seen.node(), seen.size_class(), block);
    if (likely(put == Magazines::Put::kept)) {
      count_freed(seen.node(), 1);
      return true;
    }
    if (put == Magazines::Put::repeated) return false;
  }
  return release_to_span(span, blocks, {block, block, 1}, seen);
}

}  // namespace near

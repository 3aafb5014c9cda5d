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

// Puts the block into the thread's magazine. `declined`: the thread cannot use a magazine now.
// `repeated`: a double free.
NEAR_INLINE Magazines::Put put_away(SpanBlocks blocks, Block* block, RemoteList<Block>::Seen seen) {
  if (unlikely(is_inside() || !can_have_heap())) return Magazines::Put::declined;
  Heap* heap = current_heap;
  Magazines* mine = heap->need_magazines();
  if (unlikely(mine == nullptr)) return Magazines::Put::declined;
  if (unlikely(seen.is_head(blocks.index_of(block)))) return Magazines::Put::repeated;
  const auto put = mine->put(seen.node(), seen.size_class(), block);
  if (likely(put == Magazines::Put::kept)) heap->count_freed_elsewhere(seen.node(), 1);
  return put;
}

// Puts the block into the thread's magazine, or frees it into its span. False on a double free that
// is noticed.
NEAR_INLINE bool release_remote(Span& span, SpanBlocks blocks, Block* block,
                                RemoteList<Block>::Seen seen) {
  if (unlikely(!record_freed(&span, block))) return false;
  if (uses_magazines()) {
    const auto put = put_away(blocks, block, seen);
    if (put != Magazines::Put::declined) return put == Magazines::Put::kept;
  }
  return release_to_span(span, blocks, {block, block, 1}, seen);
}

}  // namespace near

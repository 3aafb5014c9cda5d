// Frees any number of blocks into a span that this thread does not own, with one atomic operation
// on the span's list and at most one on its owner's inbox.
// Thread-safety: any thread that holds the blocks.
#pragma once

#include "base/compiler.h"
#include "front/thread.h"
#include "heap/registry.h"
#include "node/purge_signal.h"
#include "span/layout.h"

namespace near {

// Frees the blocks of `chain`. `blocks` begins at the span's first block; `seen` is the result of
// span.remote.look(). On a double free (`chain.last` is the head of the list, or the list is
// closed) it returns false and does nothing.
NEAR_INLINE bool release_remote(Span& span, SpanBlocks blocks,
                                const RemoteList<Block>::Chain& chain,
                                RemoteList<Block>::Seen seen) {
  const auto pushed = span.remote.push_chain(blocks, chain, seen);
  if (unlikely(pushed.repeated)) return false;
  count_freed(pushed.node, chain.count);
  if (!pushed.first) return true;
  heap_by_id(pushed.owner)->receive(&span);
  purge_signal.ask();
  if (unlikely(!purge_signal.present())) look_after_parked();
  return true;
}

}  // namespace near

// Frees a chain of blocks into a span that another heap owns: one atomic operation on the span's
// list, and a second one on its owner's inbox if the chain is the first in the list.
// Thread-safety: any thread that holds the blocks; locks may be held.
#pragma once

#include "base/compiler.h"
#include "heap/registry.h"
#include "node/purge_signal.h"
#include "span/layout.h"

namespace near {

// `blocks` begins at the span's first block; `seen` is the result of span.remote.look(). The result
// is that of RemoteList::push_chain; a `repeated` chain is not freed.
NEAR_INLINE RemoteList<Block>::Pushed deliver(Span& span, SpanBlocks blocks,
                                              const RemoteList<Block>::Chain& chain,
                                              RemoteList<Block>::Seen seen) {
  const auto pushed = span.remote.push_chain(blocks, chain, seen);
  if (!pushed.first) return pushed;
  heap_by_id(pushed.owner)->receive(&span);
  purge_signal.ask();
  return pushed;
}

}  // namespace near

// Large blocks: each is a span of whole slices, in the same regions as everything else. They have
// no owner; the thread that frees one gives its slices to their node.
// Thread-safety: any thread.
#pragma once

#include <cstddef>

#include "span/layout.h"

namespace near {

// Returns a block of more than kMediumMax bytes at a multiple of `alignment`, which is kBlockAlign
// or at least kSliceSize, from the node of the thread's CPU, or from the nearest that has memory;
// null (errno untouched) if refused. Sets `*zero`, if given, to whether the block reads as zero.
void* allocate_large(size_t size, size_t alignment, bool* zero);

// As allocate_large, from `node` alone. `populated`: the caller makes the whole block resident.
void* allocate_large_at(unsigned node, size_t size, size_t alignment, bool populated = false);

void release_large(Span& span);

// Resizes a large block to `size` bytes in place, whatever its node. False if there is no room
// behind it.
bool resize_large(Span& span, size_t size);

// Takes a run of whole chunks of the block's node for a block of a MiB or more to grow, and moves
// the pages there where possible: then the span is given back, and `moved` is true. Else the caller
// copies and frees. Null without a run.
void* grow_large(Span& span, size_t size, bool& moved);

// The sums over all large blocks in use now.
size_t large_bytes();
size_t large_blocks();

}  // namespace near

// Large blocks: a span of whole slices each, in the same regions as everything else. They have no
// owner; whoever frees one gives its slices to their node.
// Thread-safety: any thread.
#pragma once

#include <cstddef>

#include "span/layout.h"

namespace near {

// A block of more than kMediumMax bytes at a multiple of `alignment`, from the node of the thread's
// CPU; null (errno untouched) if refused. `zero`, if not null, is told whether it reads as zero.
void* allocate_large(size_t size, size_t alignment, bool* zero);

// The same from `node` alone.
void* allocate_large_at(unsigned node, size_t size, size_t alignment);

void release_large(Span& span);

// Makes a large block `size` bytes long where it is, on whichever node that is. False if there is
// no room behind it.
bool resize_large(Span& span, size_t size);

// In use now.
size_t large_bytes();
size_t large_blocks();

}  // namespace near

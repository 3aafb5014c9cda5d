// The check build's record of the blocks that the program holds. It finds every double free, not
// only that of the block freed last. In other builds these functions are empty.
// Thread-safety: the thread that allocates or frees the block. Several threads may change bits of
// one span at once.
#pragma once

#include <cstddef>

#include "node/memory.h"
#include "span/layout.h"

namespace near {

#if NEAR_CHECK

void record_held(const Block* block);

// False if the program does not hold the block.
bool record_freed(Span* span, const Block* block);

// True if the program holds the block.
bool is_held(Span* span, const Block* block);

// Reports a size that does not fit the block.
void check_size(const void* pointer, size_t size);

#else

NEAR_INLINE void record_held(const Block*) {}
NEAR_INLINE bool record_freed(Span*, const Block*) { return true; }
NEAR_INLINE bool is_held(Span*, const Block*) { return true; }
NEAR_INLINE void check_size(const void*, size_t) {}

#endif

}  // namespace near

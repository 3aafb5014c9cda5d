// The check build's record of the blocks that the program holds. It finds every double free, not
// only that of the block freed last; a free list that leads to a block that the program holds; and
// a block that is freed with the size of another one. In other builds these functions are empty.
// Thread-safety: the thread that allocates or frees the block. Several threads may change bits of
// one span at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "node/memory.h"
#include "span/layout.h"

namespace near {

// What may have happened to a block that is freed with its size: realloc keeps a block of another
// class where it is if that is at most twice as large as asked for.
enum class Resized : uint8_t { never, maybe };

#if NEAR_CHECK

// Reports a block that the program holds already, and what is no block. Without locks held.
void record_held(const Block* block);

// False if the program does not hold the block.
bool record_freed(Span* span, const Block* block);

// True if the program holds the block.
bool is_held(Span* span, const Block* block);

// Reports a size with which no request at a multiple of `alignment` gets such a block.
void check_size(const void* pointer, size_t size, size_t alignment, Resized resized);
// As check_size, but sizes up to that of the whole block are right.
void check_size_within(const void* pointer, size_t size, size_t alignment);
// Notes that realloc kept a block though it should have become a smaller one, for lack of memory.
void record_kept();

#else

NEAR_INLINE void record_held(const Block*) {}
NEAR_INLINE bool record_freed(Span*, const Block*) { return true; }
NEAR_INLINE bool is_held(Span*, const Block*) { return true; }
NEAR_INLINE void check_size(const void*, size_t, size_t, Resized) {}
NEAR_INLINE void check_size_within(const void*, size_t, size_t) {}
NEAR_INLINE void record_kept() {}

#endif

}  // namespace near

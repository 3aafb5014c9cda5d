// Huge objects: a mapping for each block above 1 MiB, with a header in front of the block.
//
// Invariant: a block is live <=> its header is in the table. The table is searched before a header
// is read, so a pointer of another allocator is never taken for ours.
// Thread-safety: any thread. [Aigner15 §5, handling large objects]
#pragma once

#include <cstddef>

namespace near::design::scalloc {

// A block aligned to 64 or to `alignment`, a power of two; all bytes are zero. Null if refused.
void* allocate_huge(size_t alignment, size_t size);

// Returns false and does nothing if there is no such block.
bool free_huge(void* block);

// The bytes of a live block; 0 if there is no such block.
size_t huge_size(const void* block);

struct HugeUse {
  size_t bytes;
  size_t blocks;
};
HugeUse huge_use();

void lock_huge_for_fork();
void unlock_huge_after_fork();

}  // namespace near::design::scalloc

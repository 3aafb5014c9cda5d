// near_free_batch: many blocks at once, each span's with one update of its list.
// Thread-safety: any thread.
#pragma once

#include <cstddef>

namespace near {

// Frees `count` blocks, as `release` of each in this order would. Returns how many groups they
// made: blocks of one span that went home together, or one that went alone.
size_t release_batch(void* const* blocks, size_t count);

}  // namespace near

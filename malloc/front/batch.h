// near_free_batch: frees many blocks at once, with one update of each span's list.
// Thread-safety: any thread.
#pragma once

#include <cstddef>

namespace near {

// Frees `count` blocks as `release` of each in this order would. Returns the number of groups: a
// group is the blocks of one span that were returned together, or one that was returned alone.
size_t release_batch(void* const* blocks, size_t count);

}  // namespace near

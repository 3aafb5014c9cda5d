// near_free_batch: frees many blocks at once, with one update of each span's list.
// Thread-safety: any thread.
#pragma once

#include <cstddef>

namespace near {

// Frees `count` blocks, as if `release` were called for each in order. Returns the number of
// groups: a group is the blocks of one span that were returned together, or a block returned alone.
size_t release_batch(void* const* blocks, size_t count);

}  // namespace near

// Which NUMA node provides a range of memory.
// Thread-safety: any thread, for memory that no other thread binds meanwhile.
#pragma once

#include <cstddef>

namespace near {

// Binds memory to a node as the option `bind` says. Counts a refusal.
void bind_to(unsigned node, void* start, size_t bytes);

}  // namespace near

// Which NUMA node provides a range of memory.
// Thread-safety: any thread, for memory that no other thread binds meanwhile.
#pragma once

#include <cstddef>

namespace near {

// Binds memory to a node as the option `bind` says. Counts a refusal. A memory policy that the
// process was started with is not overridden, unless the option is `strict`.
void bind_to(unsigned node, void* start, size_t bytes);

}  // namespace near

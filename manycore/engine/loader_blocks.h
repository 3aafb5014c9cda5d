// The blocks that the dynamic loader allocates for a real thread: its vector of thread-local areas.
//
// libc calls calloc while it creates a thread and free while it joins one. The engine makes both
// calls between two steps of the simulation, when a fiber that does not run may hold a lock of the
// allocator and the fiber that runs may be in the middle of a malloc. These calls should not reach
// the allocator, so the engine serves them.
#pragma once

#include <cstddef>

namespace near::manycore {

// While one of these lives, allocations are the loader's.
class LoaderAllocates {
 public:
  LoaderAllocates() { ++depth; }
  ~LoaderAllocates() { --depth; }
  LoaderAllocates(const LoaderAllocates&) = delete;
  LoaderAllocates& operator=(const LoaderAllocates&) = delete;
  static bool now() { return depth != 0; }

 private:
  inline static unsigned depth = 0;
};

void* allocate_loader_block(size_t bytes);  // zeroed, aligned to 16 bytes
bool is_loader_block(const void* address);
size_t loader_block_size(const void* address);  // at least what was asked for
void free_loader_block(void* address);

}  // namespace near::manycore

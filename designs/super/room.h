// Memory for the caches themselves, taken a chunk at a time, handed out from its start, and never
// given back.
// Thread-safety: called at start, and under the lock of the registry of threads.
#pragma once

#include <cstddef>
#include <new>

namespace near::design::super {

// Zeroed memory, a multiple of a cache line; null if memory is refused.
void* take_room(size_t bytes);

template <typename T>
T* take_room_for(size_t count) {
  static_assert(alignof(T) <= 64);
  return static_cast<T*>(take_room(count * sizeof(T)));
}

}  // namespace near::design::super

// Memory for a design's own structures, taken from an arena a step at a time, handed out from its
// start, and never given back.
// Thread-safety: called at start, and under one lock of the caller.
#pragma once

#include <cstddef>
#include <new>

#include "designs/shared/arena.h"

namespace near::design {

class Room {
 public:
  // `step`: a multiple of a cache line.
  constexpr Room(Arena& arena, size_t step) : arena_(arena), step_(step) {}

  // Zeroed memory, a multiple of a cache line; null if memory is refused.
  void* take(size_t bytes);

  template <typename T>
  T* take_for(size_t count) {
    static_assert(alignof(T) <= 64);
    return static_cast<T*>(take(count * sizeof(T)));
  }

 private:
  Arena& arena_;
  size_t step_;
  char* next_ = nullptr;
  size_t left_ = 0;
};

}  // namespace near::design

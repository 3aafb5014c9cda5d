// For tests that need blocks of a given class.
#pragma once

#include <nearmalloc/nearmalloc.h>

#include "front/thread.h"
#include "heap/heap.h"

namespace near_test {

// Gives each class of the heap blocks of its own, as if the heap had many.
inline void part_classes(near::Heap& heap) {
  const near::LockGuard guard(heap.lock);
  for (unsigned c = 0; c < near::kClasses; c++) {
    if (heap.class_of_small.serves_two(c)) heap.class_of_small.part(c);
  }
}

// Of the calling thread's heap.
inline void part_classes() {
  near_free(near_malloc(1));  // gives the thread a heap
  part_classes(*near::current_heap);
}

}  // namespace near_test

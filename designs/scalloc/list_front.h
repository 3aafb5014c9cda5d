// Another frontend for scalloc's backend and spans: SuperMalloc's lists of threads (the switch
// `frontend=super`). A thread takes blocks from its LAB, and frees them to any LAB, a list at a
// time. [Kim23 §2.2.4]
// Invariant: a block in a list is one in use to its span.
// Thread-safety: any thread.
#pragma once

#include "designs/scalloc/frontend.h"
#include "designs/shared/list_front.h"

namespace near::design::scalloc {

struct ScallocBack {
  static constexpr unsigned kClasses = scalloc::kClasses;
  static size_t block_bytes(unsigned size_class) { return kSizeClasses[size_class].size; }
  static void* allocate(unsigned size_class) { return allocate_block(size_class); }
  static void deallocate(void* block) { deallocate_block(block); }
};
using Front = ListFront<ScallocBack>;

// Frees a pointer into the arena.
NEAR_NOINLINE void put_in_front(void* pointer);

NEAR_INLINE void* take_block(unsigned size_class) {
  return unlikely(settings.list_front) ? Front::take(size_class) : allocate_block(size_class);
}
NEAR_INLINE void put_block(void* pointer) {
  return unlikely(settings.list_front) ? put_in_front(pointer) : deallocate_block(pointer);
}

}  // namespace near::design::scalloc

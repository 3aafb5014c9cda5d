// scalloc as a design, with the interface of designs/shared.
// Invariant: a pointer below the arena's mark is a block of a span; every other block is huge.
// Thread-safety: as designs/shared/design.h says. [Aigner15]
#pragma once

#include "designs/scalloc/list_front.h"
#include "designs/shared/design.h"
#include "designs/shared/mapped_blocks.h"

namespace near::design::scalloc {

// Blocks above 1 MiB. [Aigner15 §5, handling large objects]
NEAR_HIDDEN extern MappedBlocks huge;

struct Scalloc : Defaults<Scalloc> {
  static constexpr const char* kName = "scalloc";
  static std::span<Switch> switches();
  static bool start();
  static bool thread_enter();
  static void thread_exit();

  static void* allocate(size_t size) {
    if (likely(size <= kLargestBlock)) return take_block(class_of(size));
    return huge.take(size, 1);
  }
  static void* allocate_aligned(size_t alignment, size_t size);
  static void* allocate_zeroed(size_t size);

  static void deallocate(void* block) {
    if (likely(reinterpret_cast<uintptr_t>(block) - arena.start() < arena.taken())) {
      return put_block(block);
    }
    deallocate_elsewhere(block);
  }
  static size_t usable_size(const void* pointer);

  static bool trim();
  static Footprint footprint();
  static size_t counters(Counter* out);
  static void lock_for_fork();
  static void unlock_after_fork(bool child);

 private:
  NEAR_COLD static void deallocate_elsewhere(void* pointer);
};

}  // namespace near::design::scalloc

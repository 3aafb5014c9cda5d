// nalloc and nalloc0 as designs: which part serves a request. [Podolsky13]
// Thread-safety: any thread.
#pragma once

#include "base/compiler.h"
#include "designs/nalloc/heap.h"
#include "designs/nalloc/settings.h"
#include "designs/shared/design.h"

namespace near::design::nalloc {

// Requests that the small path does not serve.
NEAR_COLD void* allocate_beyond_slabs(size_t size);
NEAR_COLD void free_beyond_slabs(void* block);

struct Nalloc : design::Defaults<Nalloc> {
  static constexpr const char* kName = kVariant.name;
  static std::span<Switch> switches() { return nalloc::switches(); }
  static bool start();
  static bool thread_enter();
  static void thread_exit();

  static void* allocate(size_t size) {
    Heap* heap = current;
    if (unlikely(!kVariant.slabs || size > kLargest)) return allocate_beyond_slabs(size);
    return heap->take(chosen_class_of(size));
  }
  static void* allocate_aligned(size_t alignment, size_t size);
  static void deallocate(void* block) {
    auto* slab = reinterpret_cast<Slab*>(page_of(block));
    if (unlikely(!kVariant.slabs || !pages.contains(block) || slab->kind != Kind::slab)) {
      return free_beyond_slabs(block);
    }
    Heap* heap = current;
    if (unlikely(slab->host != heap)) return push_wayward(slab, block);
    if (unlikely(!heap->put(slab, block))) free_twice(block);
  }
  static void* allocate_zeroed(size_t size);
  static size_t usable_size(const void* block);
  static bool trim();
  static design::Footprint footprint();
  static size_t counters(Counter* out);
  static void for_each_lock(void (*visit)(Mutex& lock));
};

}  // namespace near::design::nalloc

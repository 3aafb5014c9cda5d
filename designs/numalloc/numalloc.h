// NUMAlloc [Yang23] as a design: the fast paths, and the interface for designs/shared.
//
// malloc of a small object takes it from the thread's list of its class; free puts it there if the
// object is of the thread's own node. All other paths are in numalloc.cc.
// Thread-safety: any thread.
#pragma once

#include "designs/numalloc/region.h"
#include "designs/numalloc/settings.h"
#include "designs/numalloc/thread_heap.h"
#include "designs/shared/design.h"

namespace near::design::numalloc {

struct Numalloc : Defaults<Numalloc> {
  static constexpr const char* kName = "numalloc";
  static std::span<Switch> switches() { return numalloc::switches(); }
  static bool start();
  static void configure();
  static bool thread_enter();
  static void thread_exit();

  NEAR_INLINE static void* allocate(size_t size) {
    unsigned size_class = 0;
    if (likely(size <= kTableLimit)) {
      size_class = kClassTable[(size + 15) / 16];
    } else {
      if (size > kSmallLimit) return allocate_slow(size);
      size_class = class_of(size);
    }
    Object* object = current_heap->lists[size_class].pop();
    return likely(object != nullptr) ? object : allocate_slow(size);
  }

  NEAR_INLINE static void deallocate(void* block) {
    ThreadHeap& heap = *current_heap;
    const uintptr_t offset = reinterpret_cast<uintptr_t>(block) - heap.small_start;
    if (unlikely(offset >= heap.small_size)) return deallocate_slow(block);
    const size_t size_class = heap.bag_class[offset >> kBagShift];
    if (unlikely(size_class == 0 || offset % 16 != 0)) return deallocate_slow(block);
    push(heap, size_class, static_cast<Object*>(block));
  }

  static void* allocate_aligned(size_t alignment, size_t size);
  static void* allocate_zeroed(size_t size);
  static bool resize(void* block, size_t size);
  static size_t usable_size(const void* pointer);
  static bool trim() { return false; }  // [Yang23] returns no memory
  static Footprint footprint();
  static size_t counters(Counter* out);
  static void lock_for_fork();
  static void unlock_after_fork(bool child);

 private:
  NEAR_INLINE static void push(ThreadHeap& heap, size_t size_class, Object* object) {
    const auto pushed = heap.lists[size_class].push(object);
    if (unlikely(pushed != ThreadList::Pushed::fine)) pushed_slow(heap, size_class, object, pushed);
  }
  static void pushed_slow(ThreadHeap& heap, size_t size_class, Object* object,
                          ThreadList::Pushed pushed);
  static void* allocate_slow(size_t size);
  static void* allocate_big(size_t size, size_t alignment, bool& zeroed);
  static void deallocate_slow(void* block);
  static void deallocate_big(void* block);
};

}  // namespace near::design::numalloc

// a2alloc and kheap as designs: which part serves a request. [Boritz §2]
// Thread-safety: any thread.
#pragma once

#include "designs/a2alloc/settings.h"
#include "designs/shared/design.h"

namespace near::design::a2alloc {

struct A2alloc : design::Defaults<A2alloc> {
  static constexpr const char* kName = kVariant.name;
  static std::span<Switch> switches() { return a2alloc::switches(); }
  static bool start();
  // Heaps belong to processors, so a thread has no state.
  static bool thread_enter() { return true; }
  static void thread_exit() {}

  static void* allocate(size_t size);
  static void* allocate_aligned(size_t alignment, size_t size);
  static void deallocate(void* block);
  static void* allocate_zeroed(size_t size);
  static size_t usable_size(const void* block);
  static bool trim();
  static design::Footprint footprint();
  static size_t counters(Counter* out);
  static void for_each_lock(void (*visit)(Mutex& lock));
};

}  // namespace near::design::a2alloc

// Hoard as a design: which part serves a request. [Berger00 §3]
// Thread-safety: any thread.
#pragma once

#include "designs/hoard/settings.h"
#include "designs/shared/design.h"

namespace near::design::hoard {

struct Hoard : design::Defaults<Hoard> {
  static constexpr const char* kName = "hoard";
  static std::span<Switch> switches() { return hoard::switches(); }
  static bool start();
  // A thread has the number of a heap, and no memory of its own.
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

}  // namespace near::design::hoard

// SuperMalloc as a design: which part serves a request. The frequent paths are here.
// [Kuszmaul15 §2; Kim23 §2.2.4]
// Thread-safety: any thread.
#pragma once

#include "designs/shared/design.h"
#include "designs/super/chunk_table.h"
#include "designs/super/settings.h"
#include "designs/super/thread_cache.h"
#include "front/invalid.h"

namespace near::design::super {

NEAR_COLD void* allocate_slow(size_t size);
NEAR_COLD void deallocate_slow(void* block);

struct Super : design::Defaults<Super> {
  static constexpr const char* kName = kVariant.name;
  static std::span<Switch> switches() { return super::switches(); }
  static bool start();
  static bool thread_enter() { return enter_cache(); }
  static void thread_exit() { leave_cache(); }

  static void* allocate(size_t size) {
    if (likely(size <= kLargestSmall)) {
      Block* block = current->try_take(small_bin(size));
      if (likely(block != nullptr)) return block;
    }
    return allocate_slow(size);
  }

  static void deallocate(void* block) {
    if (unlikely(!arena.contains(block))) return release_foreign(block);
    const uint32_t kind = ChunkTable::entry_of(block);
    if (likely(kind <= kSmallBins)) {
      if (likely(current->try_put(kind, static_cast<Block*>(block)))) return;
    }
    deallocate_slow(block);
  }

  static void* allocate_aligned(size_t alignment, size_t size);
  static void* allocate_zeroed(size_t size);
  static bool resize(void* block, size_t size);
  static size_t usable_size(const void* block);
  static bool trim();
  static design::Footprint footprint();
  static size_t counters(Counter* out);
  static void for_each_lock(void (*visit)(Mutex& lock));
  static void unlock_after_fork(bool child);
};

}  // namespace near::design::super

// SuperMalloc as a design: which way a request goes. The ways that are taken often are here.
// [Kuszmaul15 §2; Kim23 §2.2.4]
// Who may touch it: any thread.
#pragma once

#include "designs/shared/design.h"
#include "designs/super/chunk_table.h"
#include "designs/super/config.h"
#include "designs/super/thread_cache.h"
#include "front/invalid.h"

namespace near::super {

NEAR_COLD void* allocate_slow(size_t size);
NEAR_COLD void deallocate_slow(void* block, uint32_t entry);
NEAR_COLD void report_free(void* block);

struct Super : design::Defaults<Super> {
  static constexpr const char* kName = kConfig.name;
  static std::span<design::Switch> switches() { return super::switches(); }
  static bool start();
  static bool thread_enter() { return threads.enter(); }
  static void thread_exit() { threads.exit(); }

  static void* allocate(size_t size) {
    ThreadCache* cache = current;
    if (unlikely(cache == nullptr || size > kLargestSmall)) return allocate_slow(size);
    return cache->take(small_bin(size));
  }

  static void deallocate(void* block) {
    if (unlikely(!arena.contains(block))) return release_foreign(block);
    const uint32_t entry = ChunkTable::entry_of(block);
    const unsigned bin = entry - 1;  // huge if there is none
    ThreadCache* cache = current;
    if (unlikely(bin >= kSmallBins || cache == nullptr)) return deallocate_slow(block, entry);
    if (unlikely(!starts_block(bin, block) || !cache->put(bin, static_cast<Block*>(block)))) {
      report_free(block);
    }
  }

  static void* allocate_aligned(size_t alignment, size_t size);
  static void* allocate_zeroed(size_t size);
  static bool resize(void* block, size_t size);
  static size_t usable_size(const void* block);
  static bool trim();
  static design::Footprint footprint();
  static size_t counters(design::Counter* out);
  static void lock_for_fork();
  static void unlock_after_fork(bool child);

  // True if a block of the bin could start there.
  static bool starts_block(unsigned index, const void* pointer) {
    const Bin& bin = kBinTable[index];
    const uint64_t offset = reinterpret_cast<uintptr_t>(pointer) % kChunk - bin.first;
    return offset * bin.inverse < bin.inverse;
  }
};

}  // namespace near::super

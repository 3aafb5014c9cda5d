// Chunks: 2 MiB of address space, aligned. One table has a 32-bit entry for each, which maps a
// pointer to its bin. [Kuszmaul15 §2]
// Invariant: an entry is 0 (no blocks start there), 1 + bin, or a kind from kHuge on with a number
// in the upper 24 bits (huge.h).
// Thread-safety: any thread; an entry changes only while no block of its chunk is handed out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "designs/shared/arena.h"
#include "designs/shared/room.h"
#include "designs/super/bin.h"

namespace near::design::super {

// All memory: the table, the caches' memory (`room`), then chunks.
extern design::Arena arena NEAR_HIDDEN;
// The caches' memory.
extern design::Room room NEAR_HIDDEN;

class ChunkTable {
 public:
  enum Kind : uint32_t { kNone = 0, kHuge = 0x80, kInHuge = 0x81, kFreeHuge = 0x82 };
  static constexpr uint32_t kKindMask = 0xff;
  static constexpr unsigned kNumberShift = 8;

  // False if memory is refused.
  static bool start();

  // Requires: `pointer` is in the arena.
  static uint32_t entry_of(const void* pointer) { return entry(number_of(pointer)); }
  static uint32_t entry(size_t number) {
    // relaxed: a thread that has a block of the chunk got it after the entry was written
    return entries()[number].load(kRelaxed);
  }
  static void set(size_t number, uint32_t entry) {
    entries()[number].store(entry, kRelaxed);  // relaxed: as above
  }

  static size_t number_of(const void* pointer) {
    return (reinterpret_cast<uintptr_t>(pointer) - arena.start()) / kChunk;
  }
  static char* chunk(size_t number) {
    return reinterpret_cast<char*>(arena.start() + number * kChunk);
  }

  static constexpr uint32_t of_kind(Kind kind, size_t number) {
    return kind | static_cast<uint32_t>(number) << kNumberShift;
  }

 private:
  // The table is at the start of the arena.
  static Atomic<uint32_t>* entries() { return reinterpret_cast<Atomic<uint32_t>*>(arena.start()); }
};

}  // namespace near::design::super

// Blocks with a mapping of their own, which goes back to the system when the block is freed. A
// header in front of the block describes the mapping.
//
// Invariant: a block is live <=> its header is in the table. The table is searched before a header
// is read, so a pointer of another allocator is never taken for ours.
// Thread-safety: any thread; guarded by `lock_`. [Aigner15 §5, Berger00 §4]
#pragma once

#include <cstddef>

#include "designs/shared/ranks.h"

namespace near::design {

class MappedBlocks {
 public:
  struct Totals {
    size_t bytes;  // of the live blocks
    size_t blocks;
  };

  // A block aligned to 64 or to `alignment`, a power of two; all bytes are zero. Null if refused.
  void* take(size_t size, size_t alignment);

  // Returns false and does nothing if there is no such block.
  bool put(void* block);

  // The bytes of a live block; 0 if there is no such block.
  size_t usable(const void* block);

  Totals totals();
  Mutex& lock() { return lock_; }

 private:
  struct Header;
  static constexpr size_t kPlaces = 4096;

  static char* map(size_t bytes, size_t alignment, size_t unused);
  Header*& place_of(const void* block);
  Header** find(const void* block);

  Mutex lock_{design::kInnermostRank};
  Header* table_[kPlaces] = {};
  Totals totals_{};
};

}  // namespace near::design

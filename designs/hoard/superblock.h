// A superblock: S bytes, cut into blocks of one size class, and its description, which lies apart
// (superblocks.h). Free blocks are linked through their first word, last freed first. [Berger00 §3]
//
// Invariant: used + length of the list = capacity, unless the memory was given back (`purged`).
// Thread-safety: guarded by the lock of `owner`, which changes only under the locks of both owners.
// A thread that holds a block may read `size` and `has_inner_blocks` without a lock: they do not
// change while a block is handed out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "designs/hoard/settings.h"
#include "designs/shared/block_list.h"

namespace near::design::hoard {

class Heap;

// Fullness groups: 0 is wholly free, g from 1 to 8 is up to g eighths full and has room, the last
// one is full. So f = n/8 of a superblock with used blocks is free <=> its group is at most 8 - n.
inline constexpr unsigned kFullGroup = kEighths + 1;
inline constexpr unsigned kGroups = kFullGroup + 1;

// The result of a free; unless it is `yes`, nothing was done.
enum class Freed : uint8_t { yes, twice, no_block };

struct alignas(64) Superblock {
  Atomic<Heap*> owner;  // null: never used
  Superblock* next;     // in a group of its owner (List)
  Superblock* prev;
  Block* free;
  uint32_t used;  // blocks handed out
  uint32_t capacity;
  uint32_t size;  // of a block
  uint8_t size_class;
  uint8_t group;                  // the one whose list it is on
  bool purged;                    // its memory was given back
  Atomic<bool> has_inner_blocks;  // some addresses handed out lie inside their block

  char* start() const;

  // The block that contains the address. The caller's superblock has a size.
  char* block_around(const void* address) const {
    const auto offset = static_cast<size_t>(static_cast<const char*>(address) - start());
    return start() + offset / size * size;
  }

  unsigned fullness() const {
    return used == capacity ? kFullGroup : static_cast<unsigned>(div_up(used * kEighths, capacity));
  }

  // Cuts the superblock, which must be wholly free, into blocks of the class.
  void prepare(unsigned new_class);

  // Requires: a free block.
  Block* pop() {
    Block* block = free;
    free = block->next;
    used++;
    return block;
  }

  Freed push(void* address);
};
static_assert(sizeof(Superblock) == 64);

}  // namespace near::design::hoard

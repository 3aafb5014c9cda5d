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
#include "designs/shared/freed.h"

namespace near::design::hoard {

class Heap;

// Fullness groups: 0 is wholly free, g from 1 to 8 is up to g eighths full and has room, the last
// one is full. So f = n/8 of a superblock with used blocks is free <=> its group is at most 8 - n.
inline constexpr unsigned kFullGroup = kEighths + 1;
inline constexpr unsigned kGroups = kFullGroup + 1;

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

  // The bytes from the address to the end of its block.
  size_t usable(const void* address) const {
    return size - static_cast<size_t>(static_cast<const char*>(address) - block_around(address));
  }
  // The first aligned address in a block that the caller has.
  void* aligned_inside(void* block, size_t alignment) {
    has_inner_blocks.store(true, kRelaxed);  // relaxed: the caller passes the address on
    return reinterpret_cast<void*>(align_up(reinterpret_cast<uintptr_t>(block), alignment));
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

  // `twice`: it is the block that was freed last, or no block is in use.
  Freed push(void* address);
};
static_assert(sizeof(Superblock) == 64);

}  // namespace near::design::hoard

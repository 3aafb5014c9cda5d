// A magazine: free blocks of one size class and node, of any spans. Threads hand it on as a whole.
//
// The spans of these blocks count them as live, so no span leaves and no page is given back while a
// magazine holds a block of it. docs/decisions/0019-many-processors.md [Bonwick01 §3]
// Invariant: blocks[0 .. count) are distinct free blocks of the magazine's class and node.
// Magazines are never freed; each has a number from 1 on.
// Thread-safety: the thread that has the magazine. A depot's stack hands it on (heap/depot.h).
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "sizes/size_class.h"

namespace near {

struct Block;

inline constexpr size_t kMagazineBytes =
    16 * kKiB;  // a full magazine holds at most this, or 2 blocks

struct alignas(128) Magazine {
  static constexpr uint32_t kMost = 62;
  static constexpr uint32_t kAhead = 8;

  Atomic<uint32_t> next;  // the link in a stack of magazines
  uint32_t number;
  Atomic<uint32_t> count;  // written by the holder alone
  Block* blocks[kMost];

  uint32_t size() const { return count.load(kRelaxed); }  // relaxed: the holder's own

  // Adds a block to the `present` ones. Release: a child of fork that finds the new count also
  // finds the block.
  NEAR_INLINE void push(Block* block, uint32_t present) {
    blocks[present] = block;
    count.store(present + 1, kRelease);  // pairs: forked-list
  }
  NEAR_INLINE Block* pop() {
    const uint32_t left = size() - 1;
    count.store(left, kRelaxed);  // relaxed: the holder's own
    return blocks[left];
  }
  // Fetches the block that `pop` returns kAhead calls from now: another processor wrote it last,
  // and the program will write it at once.
  NEAR_INLINE void prefetch_next() const {
    if (size() >= kAhead) prefetch_to_write(blocks[size() - kAhead]);
  }
  bool is_last(const Block* block, uint32_t present) const {
    return present > 0 && blocks[present - 1] == block;
  }
};
static_assert(sizeof(Magazine) == 512);

// How many blocks of each class fill a magazine.
inline constexpr auto kMagazineCapacity = [] {
  std::array<uint8_t, kClasses> capacity{};
  for (unsigned c = 0; c < kClasses; c++) {
    const size_t fit = kMagazineBytes / kSizeClasses[c].size;
    capacity[c] = static_cast<uint8_t>(max_of(min_of(fit, Magazine::kMost), 2));
  }
  return capacity;
}();

}  // namespace near

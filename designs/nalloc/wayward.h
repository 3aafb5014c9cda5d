// A slab's wayward stack: blocks that were freed by threads other than its host. One word holds
// their number with pointer and tag, so that only the push that adds the last block learns that it
// did. [Podolsky13 "Approach"]
//
//   word = { tag : 32 | size : 16 | index : 16 }      index: of the block pushed last, if size > 0
//
// Invariant: `size` blocks hang from index by their `next`. Blocks leave only all together, so a
// word that comes back (ABA) is harmless: the link that a push wrote still names the head that it
// replaces. The tag counts how often the stack was emptied, and only readers use it.
// Thread-safety: any thread pushes a block that it holds; the host calls `popall` while it holds a
// block; `reset` needs a slab that no other thread has.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace near::design::nalloc {

// `Blocks` maps indices to the blocks of the slab: Block* at(uint32_t index),
// uint32_t index_of(Block*); Block has `next`. `Word` is an atomic 64-bit word.
template <typename Block, typename Word = Atomic<uint64_t>>
class WaywardStack {
 public:
  struct Pushed {
    uint32_t size;  // blocks in the stack, including this one
    bool repeated;  // the block was already the head, a double free: nothing was done
  };
  struct Chain {
    Block* first;  // null if empty
    uint32_t size;
  };

  template <typename Blocks>
  Pushed push(const Blocks& blocks, Block* block) {
    const uint32_t index = blocks.index_of(block);
    uint64_t before = word_.load(kRelaxed);  // relaxed: the exchange below checks it
    uint64_t after = 0;
    do {
      const uint32_t size = size_of(before);
      if (size > 0 && index_of(before) == index) return {size, true};
      block->next = size > 0 ? blocks.at(index_of(before)) : nullptr;
      after = word(tag_of(before), size + 1, index);
      // pairs: wayward (the thread that completes the slab sees what others did with their blocks)
    } while (!word_.compare_exchange_weak(before, after, kAcqRel, kRelaxed));
    return {size_of(after), false};
  }

  // Empties the stack by one exchange, whatever the number of blocks.
  template <typename Blocks>
  Chain popall(const Blocks& blocks) {
    const uint64_t seen = word_.load(kRelaxed);  // relaxed: only the caller changes the tag
    if (size_of(seen) == 0) return {nullptr, 0};
    // pairs: wayward
    const uint64_t all = word_.exchange(word(tag_of(seen) + 1, 0, 0), kAcquire);
    return {blocks.at(index_of(all)), size_of(all)};
  }

  // Empties the stack without returning the blocks.
  void reset() {
    const uint64_t seen = word_.load(kRelaxed);  // relaxed: no other thread has a block to push
    // relaxed: the thread that pushes next received its block from the caller
    word_.store(word(tag_of(seen) + 1, 0, 0), kRelaxed);
  }

  uint32_t size() const { return size_of(word_.load(kRelaxed)); }  // relaxed: a statistic

 private:
  static uint64_t word(uint32_t tag, uint32_t size, uint32_t index) {
    return uint64_t{tag} << 32 | uint64_t{size} << 16 | index;
  }
  static uint32_t tag_of(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
  static uint32_t size_of(uint64_t word) { return static_cast<uint32_t>(word >> 16 & 0xffff); }
  static uint32_t index_of(uint64_t word) { return static_cast<uint32_t>(word & 0xffff); }

  Word word_{0};
};

}  // namespace near::design::nalloc

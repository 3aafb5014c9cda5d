// A slab's wayward stack: its blocks that were freed by threads that are not its host. The number
// of them stands beside pointer and tag, so that the push that adds the last one learns it, and
// nobody else does. [Podolsky13 "Approach"]
//
//   word = { tag : 32 | size : 16 | index : 16 }      index: of the block pushed last, if size > 0
//
// Invariant: `size` blocks hang from index by their `next`. Blocks leave only all together, so a
// word that comes back (ABA) is harmless: the link that a push wrote still names the head that it
// replaces. The tag, which counts the times that the stack was emptied, says so to readers only.
// Thread-safety: any thread pushes a block that it holds; `popall` is the host's, while it has a
// block in hand; `reset` is for whoever holds the slab alone.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace near::nalloc {

// `Blocks` names the blocks of the slab: Block* at(uint32_t index), uint32_t index_of(Block*);
// Block has `next`. `Word` is an atomic 64-bit word.
template <typename Block, typename Word = Atomic<uint64_t>>
class WaywardStack {
 public:
  struct Pushed {
    uint32_t size;  // blocks in the stack, this one included
    bool repeated;  // the block was already the head: a double free; nothing was done
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
      // pairs: wayward (who completes the slab sees what all others did with their blocks)
    } while (!word_.compare_exchange_weak(before, after, kAcqRel, kRelaxed));
    return {size_of(after), false};
  }

  // Empties the stack: one exchange, however many blocks there are.
  template <typename Blocks>
  Chain popall(const Blocks& blocks) {
    const uint64_t seen = word_.load(kRelaxed);  // relaxed: the tag is the caller's own
    if (size_of(seen) == 0) return {nullptr, 0};
    // pairs: wayward
    const uint64_t all = word_.exchange(word(tag_of(seen) + 1, 0, 0), kAcquire);
    return {blocks.at(index_of(all)), size_of(all)};
  }

  // Forgets the blocks.
  void reset() {
    const uint64_t seen = word_.load(kRelaxed);  // relaxed: nobody else has a block to push
    // relaxed: whoever pushes next got its block from the caller
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

}  // namespace near::nalloc

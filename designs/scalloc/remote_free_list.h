// The remote free list of a span: a Treiber stack of the blocks that threads other than the owner
// freed, with their number in the top pointer.
//
//   top = { blocks : 16 | pointer : 48 }
//
// Invariant: `blocks` blocks hang from the pointer by their `next`. Blocks leave only all together,
// so ABA on the pointer is harmless: the link that a push wrote still names the top it replaces.
// Thread-safety: any thread pushes and counts; the owner takes all while the span is hot.
// [Aigner15 §5, remote f-list encoding; Treiber86]
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace near::design::scalloc {

// `Block` has `next`.
template <typename Block>
class RemoteFreeList {
 public:
  struct Chain {
    Block* first;
    int32_t blocks;
  };

  // Called when no other thread has the span.
  void reset() { top_.store(0, kRelaxed); }  // relaxed: mark_hot publishes it

  // Returns how many blocks there were before; kTwice, with nothing done, if the block is the top
  // already: it was freed before.
  static constexpr int32_t kTwice = -1;
  int32_t push(Block* block) {
    uint64_t top = top_.load(kRelaxed);  // relaxed: the exchange below checks it
    uint64_t wanted = 0;
    do {
      if (pointer_of(top) == block) return kTwice;
      block->next = pointer_of(top);
      wanted = (top & ~kPointer) + kOne + reinterpret_cast<uintptr_t>(block);
      // pairs: scalloc-free-count, scalloc-epoch
    } while (!top_.compare_exchange_weak(top, wanted, kSeqCst, kRelaxed));
    return blocks_of(top);
  }

  Chain take_all() {
    const uint64_t top = top_.exchange(0, kAcquire);  // pairs: scalloc-free-count
    return {pointer_of(top), blocks_of(top)};
  }

  int32_t blocks() const {
    return blocks_of(top_.load(kSeqCst));  // pairs: scalloc-free-count, scalloc-epoch
  }

 private:
  static constexpr unsigned kPointerBits = 48;
  static constexpr uint64_t kOne = uint64_t{1} << kPointerBits;
  static constexpr uint64_t kPointer = kOne - 1;

  static Block* pointer_of(uint64_t top) { return reinterpret_cast<Block*>(top & kPointer); }
  static int32_t blocks_of(uint64_t top) { return static_cast<int32_t>(top >> kPointerBits); }

  Atomic<uint64_t> top_{0};
};

}  // namespace near::design::scalloc

// The local free list of a span: blocks that its owner freed, and never-used blocks.
//
// Invariant: free() = blocks in the list + blocks never handed out. It is right while the span is
// not hot; a thread that reads it then also sees the list.
// Thread-safety: only the owner uses the list; any thread reads the count. [Aigner15 §3.4, §5]
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"

namespace near::design::scalloc {

// `Block` has `next`.
template <typename Block>
class LocalFreeList {
 public:
  // Makes the list empty, with `free` blocks to be handed out. Called when no other thread has the
  // span.
  void reset(int32_t free) {
    head_ = nullptr;
    free_.store(free, kRelaxed);  // relaxed: mark_hot publishes it
  }

  bool empty() const { return static_cast<Block*>(head_) == nullptr; }
  bool is_head(const Block* block) const { return static_cast<Block*>(head_) == block; }

  // Takes a block from the list of a hot span; the list must not be empty.
  Block* pop() {
    Block* block = head_;
    head_ = static_cast<Block*>(block->next);
    count_hot(-1);
    return block;
  }

  // Counts a never-used block of a hot span as handed out.
  void take_new() { count_hot(-1); }

  void push_hot(Block* block) {
    link(block);
    count_hot(1);
  }

  // Frees a block of a span that is not hot. Returns free().
  int32_t push_cold(Block* block) {
    link(block);
    const int32_t free = free_.load(kRelaxed) + 1;  // relaxed: only the owner writes
    free_.store(free, kRelease);                    // pairs: scalloc-free-count
    return free;
  }

  // Fills the empty list of a hot span with blocks that other threads freed, linked from `first`.
  void refill(Block* first, int32_t blocks) {
    head_ = first;
    count_hot(blocks);
  }

  int32_t free() const { return free_.load(kSeqCst); }  // pairs: scalloc-free-count

 private:
  void link(Block* block) {
    block->next = static_cast<Block*>(head_);
    head_ = block;
  }
  NEAR_INLINE void count_hot(int32_t blocks) {
    // relaxed: only the owner writes; other threads depend on it only after mark_floating
    free_.store(free_.load(kRelaxed) + blocks, kRelaxed);
  }

  Plain<Block*> head_ = nullptr;
  Atomic<int32_t> free_{0};
};

}  // namespace near::design::scalloc

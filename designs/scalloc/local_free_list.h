// The local free list of a span: blocks that its owner freed, and the blocks nobody has had yet.
//
// Invariant: free() = blocks in the list + blocks never handed out. It is right while the span is
// not hot; whoever reads it then also sees the list.
// Thread-safety: the list the owner alone; the count is read by any thread. [Aigner15 §3.4, §5]
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"

namespace near::design::scalloc {

// `Block` has `next`.
template <typename Block>
class LocalFreeList {
 public:
  // By whoever has the span alone: no list, `free` blocks to be handed out.
  void reset(int32_t free) {
    head_ = nullptr;
    free_.store(free, kRelaxed);  // relaxed: mark_hot publishes it
  }

  bool empty() const { return static_cast<Block*>(head_) == nullptr; }
  bool is_head(const Block* block) const { return static_cast<Block*>(head_) == block; }

  // Of a hot span, which has one.
  Block* pop() {
    Block* block = head_;
    head_ = static_cast<Block*>(block->next);
    count_hot(-1);
    return block;
  }

  // Of a hot span: one of those that nobody has had.
  void take_new() { count_hot(-1); }

  void push_hot(Block* block) {
    link(block);
    count_hot(1);
  }

  // Into a span that is not hot. Returns free().
  int32_t push_cold(Block* block) {
    link(block);
    const int32_t free = free_.load(kRelaxed) + 1;  // relaxed: only the owner writes
    free_.store(free, kRelease);                    // pairs: scalloc-free-count
    return free;
  }

  // Of a hot span: blocks that others freed, linked from `first`, into the empty list.
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
    // relaxed: only the owner writes; who may read it waits for mark_floating
    free_.store(free_.load(kRelaxed) + blocks, kRelaxed);
  }

  Plain<Block*> head_ = nullptr;
  Atomic<int32_t> free_{0};
};

}  // namespace near::design::scalloc

// A stack of blocks that many threads share without a lock.
//
// Its nodes are in a table apart from the blocks, so a thread that loses a race reads a node, never
// freed memory. The head includes a count of changes, so an equal head is an unchanged one.
// Invariant: a node is on one stack or one thread holds it. Thread-safety: any thread.
// Source: [Treiber86], with the tag of the IBM System/370 manual.
#pragma once

#include <atomic>
#include <cstdint>

#include "block.h"

namespace workload {

struct StackNode {
  Block block;
  std::atomic<uint32_t> below;  // a node's number + 1, 0 at the bottom
};

class alignas(128) TaggedStack {
 public:
  void push(StackNode* nodes, uint32_t node) {
    uint64_t head = head_.load(std::memory_order_relaxed);
    do {
      nodes[node].below.store(top_of(head), std::memory_order_relaxed);
    } while (!head_.compare_exchange_weak(head, next(head, node + 1), std::memory_order_release,
                                          std::memory_order_relaxed));
  }

  // The number of the node that was on top + 1; 0 when the stack was empty.
  uint32_t pop(StackNode* nodes) {
    uint64_t head = head_.load(std::memory_order_acquire);
    while (top_of(head) != 0) {
      const uint32_t below = nodes[top_of(head) - 1].below.load(std::memory_order_relaxed);
      if (head_.compare_exchange_weak(head, next(head, below), std::memory_order_acquire)) break;
    }
    return top_of(head);
  }

 private:
  static uint32_t top_of(uint64_t head) { return static_cast<uint32_t>(head); }
  static uint64_t next(uint64_t head, uint32_t top) { return ((head >> 32) + 1) << 32 | top; }

  std::atomic<uint64_t> head_;
};

}  // namespace workload

// Free blocks, linked through their first words, and a list of them that moves as one.
// Invariant: `head` and `tail` are both null, and count is 0; or `count` - 1 links lead from head
// to tail, whose link is null.
// Thread-safety: guarded by the structure that contains it.
#pragma once

#include <cstdint>

namespace near::design {

struct Block {
  Block* next;
};

struct BlockList {
  Block* head = nullptr;
  Block* tail = nullptr;
  uint32_t count = 0;

  static BlockList of(Block* block) {
    block->next = nullptr;
    return {.head = block, .tail = block, .count = 1};
  }
  bool empty() const { return head == nullptr; }

  // Requires: the list is not empty.
  Block* pop() {
    Block* block = head;
    head = block->next;
    if (--count == 0) tail = nullptr;
    return block;
  }

  // Adds a block at the start, or at the end.
  void push(Block* block) {
    block->next = head;
    if (head == nullptr) tail = block;
    head = block;
    count++;
  }
  void add_last(Block* block) {
    block->next = nullptr;
    (tail != nullptr ? tail->next : head) = block;
    tail = block;
    count++;
  }

  // Puts all of `other`, which must not be empty, in front, or at the end. No link is followed.
  void join(const BlockList& other) {
    other.tail->next = head;
    head = other.head;
    if (tail == nullptr) tail = other.tail;
    count += other.count;
  }
  void append(const BlockList& other) {
    (tail != nullptr ? tail->next : head) = other.head;
    tail = other.tail;
    count += other.count;
  }

  // Removes the first `wanted` < count blocks, by following as many links.
  BlockList split(uint32_t wanted) {
    Block* last = head;
    for (uint32_t i = 1; i < wanted; i++) last = last->next;
    const BlockList front{.head = head, .tail = last, .count = wanted};
    head = last->next;
    last->next = nullptr;
    count -= wanted;
    return front;
  }
};

}  // namespace near::design

// Free blocks of one bin, linked through their first words; caches hold and pass on such lists.
// Invariant: `head` and `tail` are both null or both not; `count` - 1 links lead from head to tail,
// whose link is null.
// Thread-safety: guarded by the cache that contains it.
#pragma once

#include <cstdint>

namespace near::design::super {

struct Block {
  Block* next;
};

struct CachedList {
  Block* head = nullptr;
  Block* tail = nullptr;
  uint32_t count = 0;

  static CachedList of(Block* block) {
    block->next = nullptr;
    return {.head = block, .tail = block, .count = 1};
  }
  bool empty() const { return head == nullptr; }

  Block* pop() {
    Block* block = head;
    head = block->next;
    if (--count == 0) tail = nullptr;
    return block;
  }

  // Puts all of `other`, which must not be empty, in front. No link is followed.
  void join(const CachedList& other) {
    other.tail->next = head;
    head = other.head;
    if (tail == nullptr) tail = other.tail;
    count += other.count;
  }

  // Adds a block at the end.
  void add_last(Block* block) {
    block->next = nullptr;
    (tail != nullptr ? tail->next : head) = block;
    tail = block;
    count++;
  }

  // Removes the first `wanted` < count blocks, by following as many links.
  CachedList split(uint32_t wanted) {
    Block* last = head;
    for (uint32_t i = 1; i < wanted; i++) last = last->next;
    const CachedList front{.head = head, .tail = last, .count = wanted};
    head = last->next;
    last->next = nullptr;
    count -= wanted;
    return front;
  }
};

}  // namespace near::design::super

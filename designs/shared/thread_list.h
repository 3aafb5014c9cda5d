// A thread's list of free blocks of one size, and the pair of them that SuperMalloc keeps: one in
// use and one spare, which is empty or was full. [Kim23 §2.2.4]
//
// Invariant: as BlockList; `tail` is valid only while the list is not empty.
// A fork may interrupt the list's thread, which the child does not have, between any two stores.
// Every order of stores here leaves a chain from `head` that ends, and no block in two lists. The
// child counts the chain before it uses it (`recount`).
// Thread-safety: its thread; any thread reads `count`.
#pragma once

#include "base/atomic.h"
#include "base/compiler.h"
#include "designs/shared/block_list.h"

namespace near::design {

class ThreadList {
 public:
  void start(uint32_t full) { full_ = full; }

  bool empty() const { return head_ == nullptr; }
  uint32_t full() const { return full_; }
  const Block* head() const { return head_; }
  uint32_t count() const { return count_.load(kRelaxed); }  // relaxed: a statistic to others

  // Takes the first block; null if the list is empty.
  Block* pop() {
    Block* block = head_;
    if (unlikely(block == nullptr)) return nullptr;
    head_ = block->next;
    set_count(count() - 1);
    return block;
  }

  // Returns false and does nothing if the list is full.
  bool push(Block* block) {
    const uint32_t before = count();
    if (unlikely(before >= full_)) return false;
    block->next = head_;
    if (before == 0) tail_ = block;
    in_order();
    head_ = block;
    set_count(before + 1);
    return true;
  }

  // Fills the list, which must be empty.
  void put(const BlockList& list) {
    tail_ = list.tail;
    set_count(list.count);
    in_order();
    head_ = list.head;
  }

  BlockList take() {
    const BlockList list{.head = head_, .tail = tail_, .count = count()};
    head_ = nullptr;
    set_count(0);
    return list;
  }

  void recount() {
    std::atomic_signal_fence(kAcquire);  // pairs: fork
    uint32_t count = 0;
    for (Block* block = head_; block != nullptr; block = block->next) {
      tail_ = block;
      count++;
    }
    set_count(count);
  }

 private:
  void set_count(uint32_t count) { count_.store(count, kRelaxed); }  // relaxed: see `count`

  // Orders earlier stores before later ones, as a fork of the process sees them.
  static void in_order() { std::atomic_signal_fence(kRelease); }  // pairs: fork

  Block* head_ = nullptr;
  Block* tail_ = nullptr;
  Atomic<uint32_t> count_{0};
  uint32_t full_ = 0;
};

struct ThreadLists {
  ThreadList used;
  ThreadList spare;

  void start(uint32_t full) {
    used.start(full);
    spare.start(full);
  }

  // Called when the list in use is empty. fill(list) fills it from the level below; false if that
  // has no block. Null if there is none.
  template <typename Fill>
  Block* take(Fill fill) {
    if (!spare.empty()) {
      used.put(spare.take());
    } else if (!fill(used)) {
      return nullptr;
    }
    return used.pop();
  }

  // Called when the list in use is full. empty(list) moves a list to the level below; false if that
  // has no room. Returns false and does nothing if there is none.
  template <typename Empty>
  bool put(Block* block, Empty empty) {
    if (!spare.empty() && !empty(spare)) return false;
    spare.put(used.take());
    return used.push(block);
  }

  uint32_t count() const { return used.count() + spare.count(); }
  void recount() {
    used.recount();
    spare.recount();
  }
};

}  // namespace near::design

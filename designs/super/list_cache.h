// An object cache of one bin above the threads: up to `capacity` lists. A list is full with `full`
// blocks; joining may make it longer. [Kim23 §2.2.4, Figure 4.4]
// Invariant: count <= capacity; every list except the last is full.
// Thread-safety: guarded by the lock of the cache that contains it.
#pragma once

#include "base/bits.h"
#include "designs/shared/block_list.h"

namespace near::design::super {

class ListCache {
 public:
  // Requires: `lists` has room for `capacity` >= 1 lists.
  void start(BlockList* lists, unsigned capacity, uint32_t full) {
    lists_ = lists;
    capacity_ = capacity;
    full_ = full;
  }

  bool empty() const { return count_ == 0; }
  unsigned count() const { return count_; }
  unsigned capacity() const { return capacity_; }
  uint32_t full() const { return full_; }
  bool has_room() const { return count_ < capacity_ || !is_full(last()); }

  // Keeps the list; returns false and does nothing if there is no room.
  bool put(const BlockList& list) {
    if (!has_room()) return false;
    const bool short_last = count_ > 0 && !is_full(last());
    if (short_last && (!is_full(list) || count_ == capacity_)) {
      last().join(list);
      return true;
    }
    lists_[count_++] = list;
    if (short_last) swap(count_ - 2, count_ - 1);
    return true;
  }

  // The last list, the only one that may be short; there must be one.
  BlockList& last() { return lists_[count_ - 1]; }
  const BlockList& last() const { return lists_[count_ - 1]; }
  BlockList take() { return lists_[--count_]; }

  // Takes the first list, which is full unless it is the only one; there must be one.
  BlockList take_full() {
    if (count_ >= 2) {
      swap(0, count_ - 2);
      swap(count_ - 2, count_ - 1);
    }
    return take();
  }

  size_t blocks() const {
    size_t sum = 0;
    for (unsigned i = 0; i < count_; i++) sum += lists_[i].count;
    return sum;
  }

 private:
  bool is_full(const BlockList& list) const { return list.count >= full_; }
  void swap(unsigned a, unsigned b) {
    const BlockList other = lists_[a];
    lists_[a] = lists_[b];
    lists_[b] = other;
  }

  BlockList* lists_ = nullptr;
  unsigned capacity_ = 0;
  unsigned count_ = 0;
  uint32_t full_ = 0;
};

}  // namespace near::design::super

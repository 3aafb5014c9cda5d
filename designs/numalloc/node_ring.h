// The freelist of a node for one class: a circular array of sub-lists. [Yang23 §3.5, figure 2]
//
// A thread's donated batch is put whole into the slot after the newest, and the oldest is fetched
// whole, without touching an object. Single objects freed on other nodes are collected in `open_`
// until they are a batch.
// Invariant: slots first_ .. first_ + filled_ - 1 (around the end) hold sub-lists, none empty;
// objects = sum of their counts + open_.count; open_.count < batch, unless an array was refused.
// Thread-safety: guarded by the lock of its SmallHeap; any thread reads `objects`.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "designs/numalloc/sublist.h"

namespace near::design::numalloc {

class Metadata;

class NodeRing {
 public:
  static constexpr uint32_t kFirstSlots = 8;

  // Puts a sub-list that is not empty. If all slots are in use the array doubles; if that is
  // refused the newest sub-list grows.
  void put(const Sublist& list, Metadata& metadata);

  // Puts one object. False if it is the one that was put last: it is free already.
  bool put_one(Object* object, uint32_t batch, Metadata& metadata);

  // Takes the oldest sub-list, or else the single objects, which may be none.
  Sublist take();

  // Takes the first object of the list that `take` would return; null if that is empty.
  Object* take_one();

  uint32_t slots() const { return slots_; }
  uint64_t objects() const { return objects_.load(kRelaxed); }  // relaxed: a statistic to others

 private:
  bool grow(Metadata& metadata);
  Sublist& at(uint32_t index) { return array_[(first_ + index) & (slots_ - 1)]; }
  void count(int64_t more) {
    // relaxed: changed under the lock
    objects_.store(objects() + static_cast<uint64_t>(more), kRelaxed);
  }

  Sublist* array_ = nullptr;
  uint32_t slots_ = 0;   // a power of two
  uint32_t first_ = 0;   // the slot of the next fetch
  uint32_t filled_ = 0;  // first_ + filled_: the slot of the next donation
  Sublist open_;
  Atomic<uint64_t> objects_{0};
};

}  // namespace near::design::numalloc

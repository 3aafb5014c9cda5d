// The freelist of a thread for one class, with the pointers head, tail and nth. [Yang23 §3.5,
// figure 2]
//
// Objects enter and leave at the head, so the oldest are at the tail. nth is the object before the
// oldest `batch` ones: through it they leave in constant time, without touching those in between.
// Invariant: items = length of the chain; items > 0: tail ends it; items > batch, and no oversized
// sub-list was taken: nth is the (batch + 1)th object from the tail.
// Thread-safety: its thread; others read `items` as a statistic. After fork, the thread that adopts
// the list of a thread that is gone, which may have stopped between two stores: see `repair`.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "designs/numalloc/sublist.h"

namespace near::design::numalloc {

class ThreadList {
 public:
  enum class Pushed : uint8_t { fine, full, freed_twice };

  void set_batch(uint32_t batch) { batch_ = batch; }

  uint32_t items() const { return items_.load(kRelaxed); }        // relaxed: a statistic to others
  bool empty() const { return head_.load(kRelaxed) == nullptr; }  // relaxed: its own thread

  NEAR_INLINE Object* pop() {
    Object* object = head_.load(kRelaxed);  // relaxed: its own thread
    if (likely(object != nullptr)) {
      head_.store(object->next, kRelaxed);                // relaxed: others read it only after fork
      items_.store(items_.load(kRelaxed) - 1, kRelaxed);  // relaxed: a statistic to others
    }
    return object;
  }

  // `full`: it holds two batches, and the caller must donate the older one.
  NEAR_INLINE Pushed push(Object* object) {
    Object* head = head_.load(kRelaxed);  // relaxed: its own thread
    if (unlikely(head == object)) return Pushed::freed_twice;
    object->next = head;
    head_.store(object, kRelease);  // pairs: numalloc-fork
    if (head == nullptr) tail_ = object;
    const uint32_t items = items_.load(kRelaxed) + 1;  // relaxed: a statistic to others
    items_.store(items, kRelaxed);                     // relaxed: a statistic to others
    if (likely(items <= batch_)) return Pushed::fine;
    if (items == batch_ + 1) nth_ = object;
    return unlikely(items >= 2 * batch_) ? Pushed::full : Pushed::fine;
  }

  // Requires: the list is empty.
  void fill(const Sublist& list) {
    head_.store(list.head, kRelease);    // pairs: numalloc-fork
    items_.store(list.count, kRelaxed);  // relaxed: a statistic to others
    tail_ = list.tail;
    nth_ = nullptr;
  }

  // Takes the oldest `batch` objects; all of them if nth is not known.
  Sublist take_oldest() {
    Object* last = nth_;
    const uint32_t count = items();
    if (last == nullptr || count <= batch_) return take_all();
    const Sublist oldest{last->next, tail_, batch_};
    last->next = nullptr;  // first: a fork in between may lose a batch, never double it
    tail_ = last;
    nth_ = nullptr;
    items_.store(count - batch_, kRelaxed);  // relaxed: a statistic to others
    return oldest;
  }

  Sublist take_all() {
    // relaxed: its own thread
    const Sublist all{head_.load(kRelaxed), items() > 0 ? tail_ : nullptr, items()};
    fill({});
    return all;
  }

  // Called after fork, when the thread that had the list is gone: counts the objects again. Only
  // this function follows links.
  void repair() {
    Sublist all{head_.load(kAcquire), nullptr, 0};  // pairs: numalloc-fork
    for (Object* object = all.head; object != nullptr; object = object->next) {
      all.tail = object;
      all.count++;
    }
    fill(all);
  }

 private:
  Atomic<Object*> head_{nullptr};
  Object* tail_ = nullptr;
  Object* nth_ = nullptr;
  Atomic<uint32_t> items_{0};
  uint32_t batch_ = 1;
};

}  // namespace near::design::numalloc

// An intrusive doubly linked list: T has members `next` and `prev`.
// Invariant: the first has no prev, the last has no next, and x->next->prev == x for all but the
// last.
// Thread-safety: not synchronised; the lock that guards the structure around the list guards it.
#pragma once

#include "base/assert.h"

namespace near {

template <typename T>
class List {
 public:
  T* front() const { return head_; }
  T* back() const { return last_; }
  bool empty() const { return head_ == nullptr; }

  void push_front(T* item) {
    item->prev = nullptr;
    item->next = head_;
    (head_ != nullptr ? head_->prev : last_) = item;
    head_ = item;
  }

  void remove(T* item) {
    NEAR_ASSERT(item->prev != nullptr || head_ == item);
    (item->prev != nullptr ? item->prev->next : head_) = item->next;
    (item->next != nullptr ? item->next->prev : last_) = item->prev;
    item->next = item->prev = nullptr;
  }

 private:
  T* head_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace near

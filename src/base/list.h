// An intrusive doubly linked list: T has members `next` and `prev`.
// Invariant: head == nullptr or head->prev == nullptr; x->next->prev == x for every x but the last.
// Who may touch it: whoever guards the owner of the list; the list itself has no synchronisation.
#pragma once

#include "base/assert.h"

namespace near {

template <typename T>
class List {
 public:
  T* front() const { return head_; }
  bool empty() const { return head_ == nullptr; }

  void push_front(T* item) {
    item->prev = nullptr;
    item->next = head_;
    if (head_ != nullptr) head_->prev = item;
    head_ = item;
  }

  void remove(T* item) {
    NEAR_ASSERT(item->prev != nullptr || head_ == item);
    (item->prev != nullptr ? item->prev->next : head_) = item->next;
    if (item->next != nullptr) item->next->prev = item->prev;
    item->next = item->prev = nullptr;
  }

  T* pop_front() {
    T* item = head_;
    if (item != nullptr) remove(item);
    return item;
  }

 private:
  T* head_ = nullptr;
};

}  // namespace near

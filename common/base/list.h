// An intrusive doubly linked list. T has members `next` and `prev`, or kLinksOf returns the part of
// a T that has them.
// Invariant: the first has no prev, the last has no next, and x->next->prev == x for all but the
// last.
// Thread-safety: not synchronised; the lock that guards the structure around the list guards it.
#pragma once

#include "base/assert.h"

namespace near {

template <typename T>
T& links_in_item(T& item) {
  return item;
}

template <typename T, auto kLinksOf = links_in_item<T>>
class List {
 public:
  T* front() const { return head_; }
  T* back() const { return last_; }
  bool empty() const { return head_ == nullptr; }

  void push_front(T* item) {
    auto& links = kLinksOf(*item);
    links.prev = nullptr;
    links.next = head_;
    (head_ != nullptr ? kLinksOf(*head_).prev : last_) = item;
    head_ = item;
  }

  void push_back(T* item) {
    auto& links = kLinksOf(*item);
    links.next = nullptr;
    links.prev = last_;
    (last_ != nullptr ? kLinksOf(*last_).next : head_) = item;
    last_ = item;
  }

  void remove(T* item) {
    auto& links = kLinksOf(*item);
    NEAR_ASSERT(links.prev != nullptr || head_ == item);
    (links.prev != nullptr ? kLinksOf(*links.prev).next : head_) = links.next;
    (links.next != nullptr ? kLinksOf(*links.next).prev : last_) = links.prev;
    links.next = links.prev = nullptr;
  }

 private:
  T* head_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace near

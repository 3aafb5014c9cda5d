// A list of a domain for what has no other place: objects that were retired when there was no
// memory to note them in a limbo, which have two words for that; and under Hyaline the batches that
// a signal handler let go of last.
//
// Invariant: each thing set aside is taken once, with all that its thread wrote before.
// Thread-safety: any thread.
#pragma once

#include "nearmalloc/impl/atomic.hpp"

namespace near::reclaim::impl {

template <class Words>
class Aside {
 public:
  void push(Words& words) {
    Words* first = first_.load(kRelaxed);  // relaxed: the exchange checks it
    do {
      words.next = first;
    } while (!first_.compare_exchange_weak(first, &words, kRelease, kRelaxed));  // pairs: aside
  }

  bool is_empty() const { return first_.load(kRelaxed) == nullptr; }  // relaxed: a hint

  // Empties the list. The words are linked by `next`, the newest first.
  Words* take_all() {
    if (is_empty()) return nullptr;
    return first_.exchange(nullptr, kAcquire);  // pairs: aside
  }

 private:
  Atomic<Words*> first_{nullptr};
};

}  // namespace near::reclaim::impl

// A stack that any thread pushes to and that is emptied all at once: a heap's pending spans.
//
// Invariant: an item is in at most one inbox, and there once; its link belongs to the thread that
// pushed it or took it out. Pushing is a compare-and-swap and never waits; taking is one exchange.
// Items leave only all together, so ABA is harmless: if the head that a push read comes back, the
// link that the push wrote is still right.
// Thread-safety: any thread pushes; a heap's inbox is emptied under the heap's lock.
#pragma once

#include "base/atomic.h"

namespace near {

// `Link` is a pointer to the member of T that joins the items.
template <typename T, Plain<T*> T::* Link>
class Inbox {
 public:
  // The purge thread clears its request flag (PurgeSignal::begin_round) before it tests `empty()`.
  bool empty() const { return head_.load(kSeqCst) == nullptr; }  // pairs: purge-signal

  void push(T* item) { push_chain(item, item); }

  // Pushes a chain that is already linked from `first` to `last`.
  void push_chain(T* first, T* last) {
    T* head = head_.load(kRelaxed);  // relaxed: the exchange below checks it
    do {
      last->*Link = head;
      // pairs: inbox, purge-signal
    } while (!head_.compare_exchange_weak(head, first, kSeqCst, kRelaxed));
  }

  // The items, last pushed first, linked by Link; null if there are none.
  T* take_all() { return head_.exchange(nullptr, kAcquire); }  // pairs: inbox

 private:
  Atomic<T*> head_{nullptr};
};

}  // namespace near

// A stack that any thread pushes to and that is emptied whole: a heap's pending spans.
//
// Invariant: an item is in at most one inbox, once (its link belongs to whoever put it there or
// took it out). Pushing is one compare-and-swap and never waits; taking is one exchange. As items
// leave only all together, the head that a push saw may come back (ABA) without harm: the link it
// wrote is still the right one.
// Thread-safety: any thread pushes; whoever is entitled to the whole content takes it.
#pragma once

#include "base/atomic.h"

namespace near {

// `Link` is a pointer to the member of T that joins the items.
template <typename T, Plain<T*> T::* Link>
class Inbox {
 public:
  // Whoever sleeps while it is empty looks after forgetting what was asked (PurgeSignal).
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

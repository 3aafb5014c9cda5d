// Which thread owns a record; and exclusive use of the owner's words for a moment, while the record
// may change hands.
//
//   0    no thread
//   t    thread t, by its kernel number
//   -t   thread t holds the record: no other thread may become its owner
// A thread holds each of its records while it looks at them, or changes them, for a wait: it may
// have given the handle away, and the thread that got it may adopt it at any moment. An owner that
// uses one record of its own holds nothing: it would have adopted it before.
// Invariant: the owner's words are used by the thread that holds the record, and else by its owner
// only; each user sees what the one before did. A record is held only for a bounded number of
// steps, never while its thread waits for another one. So adoption, which waits until no thread
// holds the record, cannot be part of a deadlock.
// Thread-safety: any thread.
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/fence.hpp"

namespace near::reclaim::impl {

class OwnerWord {
 public:
  // The thread; 0: none. relaxed: for reports, and for fork, where there is one thread
  int32_t thread() const {
    const int32_t word = word_.load(kRelaxed);
    return word < 0 ? -word : word;
  }

  // For a record that no other thread uses. relaxed: released with the record, or with its handle
  void set(int32_t thread) { word_.store(thread, kRelaxed); }

  // False: the record is not `mine`, or not any more.
  bool try_hold(int32_t mine) {
    // relaxed: only a hint, the exchange decides
    return word_.load(kRelaxed) == mine &&
           word_.compare_exchange_strong(mine, -mine, kAcquire, kRelaxed);  // pairs: owner-word
  }

  // Becomes the owner, and holds the record.
  void adopt(int32_t mine) {
    for (;;) {
      int32_t before = word_.load(kRelaxed);  // relaxed: only a hint, the exchange decides
      if (before >= 0 &&
          word_.compare_exchange_strong(before, -mine, kAcquire, kRelaxed)) {  // pairs: owner-word
        return;
      }
      yield();
    }
  }

  // Requires that thread `mine` holds the record.
  void release(int32_t mine) { word_.store(mine, kRelease); }  // pairs: owner-word

 private:
  Atomic<int32_t> word_{0};
};

}  // namespace near::reclaim::impl

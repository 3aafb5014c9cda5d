// A lock-free stack of things that have numbers: the clean pages, the parked heaps.
// [Podolsky13 "Approach"; Treiber86]
//
//   top = { tag : 32 | index : 32 }      index 0: empty
//
// A pop changes the tag; a push need not, as a push alone brings no old top back. Top and tag are
// one word, so nobody reads one before the other. A pop reads the link of a top that another thread
// may have taken by then: links are atomic, stand outside of what is stacked, and stay mapped.
// Invariant: an index is in at most one stack, once; its link belongs to whoever put it there.
// Who may touch it: any thread.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace near::nalloc {

// `Links` has Atomic<uint32_t>& next(uint32_t index).
class IndexStack {
 public:
  template <typename Links>
  void push(const Links& links, uint32_t index) {
    uint64_t top = top_.load(kRelaxed);  // relaxed: the exchange below checks it
    do {
      // relaxed: the exchange below publishes it
      links.next(index).store(index_of(top), kRelaxed);
      // pairs: index-stack
    } while (!top_.compare_exchange_weak(top, word(tag_of(top), index), kRelease, kRelaxed));
  }

  // 0 if it is empty.
  template <typename Links>
  uint32_t pop(const Links& links) {
    uint64_t top = top_.load(kAcquire);  // pairs: index-stack
    while (index_of(top) != 0) {
      // relaxed: came with the top; what it is if the top was taken, the tag tells
      const uint32_t next = links.next(index_of(top)).load(kRelaxed);
      // pairs: index-stack
      if (top_.compare_exchange_weak(top, word(tag_of(top) + 1, next), kAcquire, kAcquire)) break;
    }
    return index_of(top);
  }

 private:
  static uint64_t word(uint32_t tag, uint32_t index) { return uint64_t{tag} << 32 | index; }
  static uint32_t tag_of(uint64_t top) { return static_cast<uint32_t>(top >> 32); }
  static uint32_t index_of(uint64_t top) { return static_cast<uint32_t>(top); }

  Atomic<uint64_t> top_{0};
};

}  // namespace near::nalloc

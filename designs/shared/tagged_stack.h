// A lock-free stack of things that have numbers: a Treiber stack with a tag. [Treiber86]
//
//   top = { tag : 32 | number : 32 }      number 0: empty
//
// A pop changes the tag; a push need not, as a push alone brings no old top back. So a pop that
// stood still for less than 2^32 others notices that its top came back with another number below
// (ABA). Top and tag are one word, so nobody reads one before the other. A pop reads the link of a
// top that another thread may have taken by then: links are atomic, and stay mapped.
// Invariant: a number is in at most one stack, once; its link belongs to whoever put it there.
// Thread-safety: any thread.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace near {

// `Links` has Atomic<uint32_t>& next(uint32_t number), for each number from 1 on.
class TaggedStack {
 public:
  template <typename Links>
  void push(const Links& links, uint32_t number) {
    uint64_t top = top_.load(kRelaxed);  // relaxed: the exchange below checks it
    do {
      // relaxed: the exchange below publishes it
      links.next(number).store(number_of(top), kRelaxed);
      // pairs: tagged-stack
    } while (!top_.compare_exchange_weak(top, word(tag_of(top), number), kRelease, kRelaxed));
  }

  // 0 if it is empty.
  template <typename Links>
  uint32_t pop(const Links& links) {
    uint64_t top = top_.load(kAcquire);  // pairs: tagged-stack
    while (number_of(top) != 0) {
      // relaxed: came with the top; what it is if the top was taken, the tag tells
      const uint32_t below = links.next(number_of(top)).load(kRelaxed);
      // No release: as an exchange it passes on what the pushes released. pairs: tagged-stack
      if (top_.compare_exchange_weak(top, word(tag_of(top) + 1, below), kAcquire, kAcquire)) break;
    }
    return number_of(top);
  }

  // For statistics, which may be stale. relaxed: as said
  bool was_used() const { return top_.load(kRelaxed) != 0; }

 private:
  static constexpr uint64_t word(uint32_t tag, uint32_t number) {
    return uint64_t{tag} << 32 | number;
  }
  static constexpr uint32_t tag_of(uint64_t top) { return static_cast<uint32_t>(top >> 32); }
  static constexpr uint32_t number_of(uint64_t top) { return static_cast<uint32_t>(top); }

  Atomic<uint64_t> top_{0};
};

}  // namespace near

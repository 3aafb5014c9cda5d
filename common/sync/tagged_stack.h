// A lock-free stack of numbered items: a Treiber stack with a tag. [Treiber86]
//
//   top = { tag : 32 | number : 32 }      number 0: empty
//
// The tag prevents ABA: a pop that read an old top fails even if the same number is on top again,
// unless exactly a multiple of 2^32 pops came between. Only a pop changes the tag, because a top
// comes back only after a pop. Top and tag are one word, so a thread reads both at once. A pop may
// read the link of an item that another thread has already popped: links are atomic and stay
// mapped.
// Invariant: a number is in at most one stack, and there once; only the thread that pushes a number
// writes its link.
// Thread-safety: any thread.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace near {

// `Links` provides Atomic<uint32_t>& next(uint32_t number) for each number from 1 on.
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
      // relaxed: the acquire of the top covers it; if the top was popped since, the tag differs
      const uint32_t below = links.next(number_of(top)).load(kRelaxed);
      // No release needed: a pop continues the release sequence of the pushes. pairs: tagged-stack
      if (top_.compare_exchange_weak(top, word(tag_of(top) + 1, below), kAcquire, kAcquire)) break;
    }
    return number_of(top);
  }

  // relaxed: a hint
  bool is_empty() const { return number_of(top_.load(kRelaxed)) == 0; }

  // For statistics. relaxed: the answer may be stale
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

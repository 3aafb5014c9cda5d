// A Treiber stack of spans, named by their numbers, the first of which is 1.
//
//   top = { changes : 32 | number : 32 }      number 0: empty
//
// Invariant: a span is in at most one stack, once, and belongs to whoever popped it. Each push and
// pop changes the count, so a pop that stood still for less than 2^32 of them notices that its top
// came back with another span below (ABA). Links stay readable in every state of a span.
// Who may touch it: any thread. [Aigner15 §3.3; Treiber86]
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace near::design::scalloc {

// `Links` names the link of a span: Atomic<uint32_t>& link(uint32_t number).
class TreiberStack {
 public:
  template <typename Links>
  void push(const Links& links, uint32_t number) {
    uint64_t top = top_.load(kRelaxed);  // relaxed: the exchange below checks it
    do {
      links.link(number).store(number_of(top), kRelaxed);  // relaxed: published with the top
      // pairs: scalloc-pool
    } while (!top_.compare_exchange_weak(top, next(top, number), kRelease, kRelaxed));
  }

  // The number of the span, 0 if there is none.
  template <typename Links>
  uint32_t pop(const Links& links) {
    uint64_t top = top_.load(kAcquire);  // pairs: scalloc-pool
    while (number_of(top) != 0) {
      // relaxed: if it is another life's, the exchange fails
      const uint32_t below = links.link(number_of(top)).load(kRelaxed);
      // No release: as an exchange it passes on what the pushes released. pairs: scalloc-pool
      if (top_.compare_exchange_weak(top, next(top, below), kAcquire, kAcquire)) break;
    }
    return number_of(top);
  }

  // For statistics, which may be stale. relaxed: as said
  bool was_used() const { return top_.load(kRelaxed) != 0; }

 private:
  static constexpr uint32_t number_of(uint64_t top) { return static_cast<uint32_t>(top); }
  static constexpr uint64_t next(uint64_t top, uint32_t number) {
    return ((top >> 32) + 1) << 32 | number;
  }

  Atomic<uint64_t> top_{0};
};

}  // namespace near::design::scalloc

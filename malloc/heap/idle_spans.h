// Medium spans that stay hot though all their blocks are free, so that a loop of malloc and free
// does not make and break spans. Guard: the lock of the heap.
#pragma once

#include "span/layout.h"

namespace near {

class IdleSpans {
 public:
  // Adds a span. Returns the one that it displaces, or null.
  Span* add(Span& span) {
    Span* displaced = spans_[next_];
    span.idle = true;
    spans_[next_] = &span;
    next_ = (next_ + 1) % kMost;
    if (displaced != nullptr) displaced->idle = false;
    return displaced;
  }

  // Takes a span out, if it is here.
  void remove(Span& span) {
    span.idle = false;
    for (Span*& each : spans_) {
      if (each == &span) each = nullptr;
    }
  }

 private:
  static constexpr unsigned kMost = 2;

  Span* spans_[kMost] = {};
  unsigned next_ = 0;
};

}  // namespace near

// Medium spans that stay hot though all their blocks are free, so that a loop of malloc and free
// does not make and break spans.
//
// Bound: kMost of them, and 1/kShare of the heap's spans, but kFew are kept in any case; kFewest in
// a heap that has shrunk.
// Invariant: a span is here if and only if its `idle` is set. Guard: the lock of the heap.
#pragma once

#include "span/layout.h"

namespace near {

class IdleSpans {
 public:
  void add(Span& span) {
    span.idle = true;
    spans_[count_++] = &span;
    slices_ += span.slices;
  }

  // Takes the span that waits longest out, if there is one too many for a heap of so many spans;
  // else null.
  Span* take_surplus(uint32_t spans_of_heap, bool has_shrunk) {
    if (count_ <= (has_shrunk ? kFewest : kFew)) return nullptr;
    if (count_ < kMost && slices_ <= spans_of_heap / kShare) return nullptr;
    Span* oldest = spans_[0];
    remove(*oldest);
    return oldest;
  }

  // Takes a span out that is here.
  void remove(Span& span) {
    span.idle = false;
    slices_ -= span.slices;
    unsigned at = 0;
    while (spans_[at] != &span) at++;
    for (count_--; at < count_; at++) spans_[at] = spans_[at + 1];
  }

 private:
  static constexpr unsigned kFewest = 2;
  static constexpr unsigned kFew = 6;
  static constexpr unsigned kMost = 12;
  static constexpr uint32_t kShare = 32;

  Span* spans_[kMost] = {};  // oldest first
  unsigned count_ = 0;
  uint32_t slices_ = 0;  // of all of them
};

}  // namespace near

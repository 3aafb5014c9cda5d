// Empty spans that a heap keeps for its next need of one, so that it seldom takes its node's lock.
// Guard: the lock of the heap.
#pragma once

#include <cstdint>

#include "span/layout.h"

namespace near {

class SpanCache {
 public:
  // Takes a span, preferably one that was of this class: its free list is still valid. Null if
  // there is none.
  Span* take(unsigned size_class) {
    if (count_ == 0) return nullptr;
    unsigned at = count_ - 1;
    while (at > 0 && spans_[at]->size_class != size_class) at--;
    return take_at(at);
  }

  // Takes the span that came last; null if there is none.
  Span* take() { return count_ == 0 ? nullptr : spans_[--count_]; }

  // Adds an empty span of one slice. If that is one too many, returns the span that was kept
  // longest, for its node; otherwise null.
  Span* add(Span& span) {
    Span* surplus = count_ == kMost ? take_at(0) : nullptr;
    spans_[count_++] = &span;
    return surplus;
  }

  // Adds the bytes of the spans to the sums of their nodes.
  void add_bytes(uint64_t* bytes_of_node) const {
    for (unsigned i = 0; i < count_; i++) bytes_of_node[spans_[i]->node] += kSliceSize;
  }

 private:
  static constexpr unsigned kMost = 5;

  Span* take_at(unsigned at) {
    Span* span = spans_[at];
    for (count_--; at < count_; at++) spans_[at] = spans_[at + 1];
    return span;
  }

  Span* spans_[kMost] = {};  // oldest first
  unsigned count_ = 0;
};

}  // namespace near

// Medium spans that stay hot though all their blocks are free, so that a loop of malloc and free
// does not make and break spans.
//
// No thread can take such a span from an owner that sleeps, so a class has to earn it: a span stays
// when one of its class was all free a few times since the purge thread last asked the heap to look
// at its spans. A thread that used a size once and sleeps keeps nothing for it.
// docs/decisions/0024-heaps-at-rest.md
//
// Bound: kMost of them, and kFewSlices or (if that is more) 1/kShare of the heap's spans, but kFew
// are kept in any case; kFewest in a heap that has shrunk.
// Invariant: a span is here if and only if its `idle` is set. Guard: the lock of the heap.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/bits.h"
#include "span/layout.h"

namespace near {

class IdleSpans {
 public:
  // A hot span of this class is all free. True if it should stay.
  bool earns(unsigned size_class) {
    uint8_t& times = times_[size_class - kSmallClasses];
    if (times == kTimes) return true;
    times++;
    return false;
  }

  // Time has passed.
  void forget() { memset(times_, 0, sizeof times_); }

  void add(Span& span) {
    span.idle = true;
    spans_[count_++] = &span;
    slices_ += span.slices;
  }

  // Takes the span that waits longest out, if there is one too many for a heap of so many spans;
  // else null.
  Span* take_surplus(uint32_t spans_of_heap, bool has_shrunk) {
    if (count_ <= (has_shrunk ? kFewest : kFew)) return nullptr;
    const size_t most = max_of(spans_of_heap / kShare, has_shrunk ? 0 : kFewSlices);
    if (count_ < kMost && slices_ <= most) return nullptr;
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
  static constexpr unsigned kMost = 32;
  static constexpr uint32_t kFewSlices = 24;
  static constexpr uint32_t kShare = 32;
  static constexpr uint8_t kTimes = 4;

  Span* spans_[kMost] = {};  // oldest first
  unsigned count_ = 0;
  uint32_t slices_ = 0;                           // of all of them
  uint8_t times_[kClasses - kSmallClasses] = {};  // how often all free, by class
};

}  // namespace near

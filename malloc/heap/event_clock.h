// The clock of a heap by which it finds spans that have had free blocks for a while. It counts
// events: calls of `settle` (heap/heap.h).
//
// How long is a while? A heap that only frees should give back its free pages as it goes: there may
// be no later event. A heap that allocates between its frees would need most of these pages again,
// so a span has to be older than kWhileMs; the time comes from two marks, which cost a look at the
// system's clock only when the heap is about to sweep.
// Guard: the lock of the heap. docs/decisions/0005-pages-inside-spans.md
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "platform/clock.h"

namespace near {

class EventClock {
 public:
  // Events are counted modulo 2^16: a span that is older than all of them looks young, and waits.
  using Time = uint16_t;
  static constexpr Time kWhile = 256;
  static constexpr uint64_t kWhileMs = 25;

  static constexpr Time since(Time now, Time then) { return static_cast<Time>(now - then); }

  Time now() const { return now_; }
  void count_event() { now_++; }
  void count_refill() { refilled_ = now_; }

  // How many events ago a span was filed that has had free blocks for a while.
  Time events_of_while(uint64_t now_ms) {
    if (since(now_, refilled_) > kOnlyFrees) return kWhile;
    if (is_old(now_ms, marked_ms_, kWhileMs)) {
      older_mark_ = mark_;
      mark_ = now_;
      marked_ms_ = now_ms;
    }
    const Time marked = since(now_, older_mark_);
    return marked > kWhile ? marked : kWhile;
  }

 private:
  static constexpr Time kOnlyFrees = 64;  // events without a refill

  Time now_ = 0;
  Time refilled_ = 0;    // the last refill of a bin
  Time mark_ = 0;        // the mark that was set last, at marked_ms_
  Time older_mark_ = 0;  // the one before, kWhileMs earlier or more
  uint64_t marked_ms_ = 0;
};

}  // namespace near

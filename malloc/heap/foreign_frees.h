// Whether a thread keeps foreign blocks, which are those of other heaps' spans, in its magazines
// when it frees them. On few processors each thread decides (MagazineUse::by_thread).
//
// A block that returns to its span costs one or two atomic operations, and its owner a visit to the
// span. A block in a magazine costs two slow paths instead, a free and a malloc. And while threads
// use each other's blocks, half of their frees are foreign, however few blocks change hands. So
// magazines pay where many frees are foreign for a long time, where these are scattered over many
// spans, and where the thread uses what it keeps.
// The thread looks at kWindow foreign frees at a time. While magazines do not pay, it rests between
// two looks. One block in kHome returns to its span in any case: so the owners get their blocks
// back when the threads begin to free only what they allocated.
// Thread-safety: the owner's thread. docs/decisions/0019-many-processors.md
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/compiler.h"
#include "heap/purge_thread.h"
#include "span/layout.h"

namespace near {

class ForeignFrees {
 public:
  static constexpr uint32_t kWindow = 256;
  static constexpr uint32_t kHome = 64;
  static constexpr uint32_t kRest = 7 * kWindow;
  static constexpr int kEnough = 16;  // windows in a row in which magazines would pay
  static constexpr int kPause = 32;   // more windows, if the thread did not use what it kept

  // True if the thread rests. Then this counts the free, and the block returns to its span.
  NEAR_INLINE bool rest() {
    if (rest_ == 0) return false;
    rest_--;
    return true;
  }

  // Counts the free of a block of `span` by a thread that does not rest. True if a magazine should
  // keep the block. `own()` returns how many blocks of its own spans the thread has freed so far.
  template <typename Own>
  NEAR_INLINE bool count(const Span& span, Own own) {
    if (was_last_in(span)) repeated_++;
    left_--;
    if (likely(left_ % kHome != 0)) return keeps();
    if (left_ == 0) {
      left_ = kWindow;  // before own() waits for a lock: a child of fork may go on from here
      decide(own());
    }
    return false;
  }

  // Counts a block that found no room: the thread used too few of those that it had kept.
  void count_unused() { unused_++; }

 private:
  static constexpr unsigned kSlotBits = 4;

  // True if the thread's last foreign free into a span with this slot was into `span`.
  NEAR_INLINE bool was_last_in(const Span& span) {
    const auto number = static_cast<uint32_t>(number_of(span));
    uint32_t& last = last_[hash_slot(number, kSlotBits)];
    const bool is = last == number;
    last = number;
    return is;
  }

  bool keeps() const { return windows_ == kEnough; }

  // Ends a window. A thread that keeps blocks goes on with a smaller share of foreign frees than it
  // began with, because by then the blocks are mixed.
  NEAR_NOINLINE void decide(uint64_t own) {
    const uint64_t most_own = uint64_t{foreign_} * 3 / (keeps() ? 1 : 2);
    const bool uses = unused_ < kWindow * 3 / 4;
    const bool pays =
        uses && own - own_ < most_own && repeated_ < kWindow / 2 && !has_many_threads();
    if (pays) {
      windows_ = windows_ < kEnough ? windows_ + 1 : kEnough;
    } else if (!uses) {
      windows_ = -kPause;
    } else if (windows_ > 0) {  // otherwise the pause goes on
      windows_ = 0;
    }
    rest_ = pays && windows_ >= 0 ? 0 : kRest;
    foreign_ = rest_ + kWindow;
    own_ = own;
    repeated_ = unused_ = 0;
  }

  uint32_t rest_ = kRest;               // foreign frees before the next window begins
  int windows_ = 0;                     // the last ones, in which magazines would have paid
  uint32_t left_ = kWindow;             // of this window
  uint32_t foreign_ = kRest + kWindow;  // from the end of the last window to that of this one
  uint32_t repeated_ = 0;               // of this window: into the same spans again
  uint32_t unused_ = 0;                 // of this window: not kept
  uint64_t own_ = 0;                    // at the end of the last window
  uint32_t last_[1 << kSlotBits] = {};
};

}  // namespace near

// Limits how often the helper thread may be started: a bucket of starts that fills with time.
//
// Without a limit, a program that creates and joins one thread after another would pay for a helper
// each time. A few starts in a row are allowed, so that short threads at the program's start do not
// prevent a helper for the long ones that follow. docs/decisions/0014-helper-thread-and-fork.md
// Invariant: left <= kBurst.
// Thread-safety: guarded by the lock of heap/purge_thread.cc.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "platform/clock.h"

namespace near {

class StartRation {
 public:
  using Time = decltype(coarse_now_ms());
  static constexpr uint32_t kBurst = 8;
  static constexpr uint32_t kEveryMs = 20;

  // Takes one start if one is left now; false if none is.
  bool take(Time now) {
    refill(now);
    if (left_ == 0) return false;
    left_--;
    return true;
  }

  // Takes all starts: the next one is possible after kEveryMs.
  void exhaust(Time now) {
    left_ = 0;
    since_ = now;
  }

 private:
  void refill(Time now) {
    const Time passed = (now - since_) / kEveryMs;
    if (passed == 0) return;
    left_ = passed >= kBurst - left_ ? kBurst : left_ + static_cast<uint32_t>(passed);
    since_ = now;
  }

  uint32_t left_ = kBurst;
  Time since_ = 0;  // when the bucket was last refilled or emptied
};

}  // namespace near

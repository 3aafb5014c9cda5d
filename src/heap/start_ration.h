// How often the helper thread may be started: a bucket of starts that fills with time.
//
// A program that creates and joins one thread after another would else pay for a helper each time.
// A few starts in a row are free, so that the short threads of a program's own start do not keep
// the helper from the long ones that follow. docs/decisions/0014-helper-thread-and-fork.md
// Invariant: left <= kBurst.
// Who may touch it: guarded by the lock of heap/purge_thread.cc.
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

  // True if there may be a start now, which counts.
  bool take(Time now) {
    refill(now);
    if (left_ == 0) return false;
    left_--;
    return true;
  }

  // The next start may come after the time that one takes to come back.
  void exhaust(Time now) {
    left_ = 0;
    since_ = now;
  }

 private:
  // The clock wraps: a process that sleeps through a multiple of its range finds a bucket that is
  // less full than it might be.
  void refill(Time now) {
    const Time passed = (now - since_) / kEveryMs;
    if (passed == 0) return;
    left_ = passed >= kBurst - left_ ? kBurst : left_ + static_cast<uint32_t>(passed);
    since_ = now;
  }

  uint32_t left_ = kBurst;
  Time since_ = 0;  // when a start came back last
};

}  // namespace near

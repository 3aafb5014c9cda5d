// How a thread waits for other threads.
// Thread-safety: only its own thread.
#pragma once

#include <sched.h>
#include <unistd.h>

namespace near::reclaim::impl {

// For waits of unknown length: yields at first, later sleeps for a moment.
class Patience {
 public:
  void wait() noexcept {
    waits_++;
    if (waits_ < 50) {
      sched_yield();
    } else {
      usleep(waits_ < 500 ? 50 : 1000);
    }
  }

 private:
  unsigned waits_ = 0;
};

}  // namespace near::reclaim::impl

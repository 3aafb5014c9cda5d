// A coarse monotonic clock for decay. Who may touch it: any thread.
#pragma once

#include <cstdint>

namespace near {

// Milliseconds since some start, to the kernel's tick (1 to 10 ms); wraps after 49 days, so compare
// differences only.
uint32_t coarse_now_ms();

// True if `then` is at least `age_ms` before `now`; a `then` that is later (another thread's clock)
// is not old.
constexpr bool is_old(uint32_t now, uint32_t then, uint32_t age_ms) {
  return static_cast<int32_t>(now - then) >= static_cast<int32_t>(age_ms);
}

}  // namespace near

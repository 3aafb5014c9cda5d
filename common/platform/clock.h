// A coarse monotonic clock for decay. Thread-safety: any thread.
#pragma once

#include <cstdint>

namespace near {

// Milliseconds since some start, to the kernel's tick (1 to 10 ms). 64 bits do not wrap.
uint64_t coarse_now_ms();

// True if `then` is at least `age_ms` before `now`; a `then` that is later (another thread's clock)
// is not old.
constexpr bool is_old(uint64_t now, uint64_t then, uint64_t age_ms) {
  return now >= then && now - then >= age_ms;
}

}  // namespace near

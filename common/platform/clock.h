// The clocks of the system; a coarse monotonic one is for decay. Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <ctime>

namespace near {

// Milliseconds since some start, to the kernel's tick (1 to 10 ms). 64 bits do not wrap.
uint64_t coarse_now_ms();

// Reads a clock of the system, in nanoseconds.
inline uint64_t clock_ns(clockid_t clock) {
  struct timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// True if `then` is at least `age_ms` before `now`; a `then` that is later (another thread's clock)
// is not old.
constexpr bool is_old(uint64_t now, uint64_t then, uint64_t age_ms) {
  return now >= then && now - then >= age_ms;
}

}  // namespace near

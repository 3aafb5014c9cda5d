// Virtual time as the process sees it.
#pragma once

#include <time.h>

#include "engine/engine.h"

namespace near::manycore {

// The time of a clock that is 0 at the start of the run.
inline constexpr uint64_t kMonotonicStart = 1'000;         // seconds
inline constexpr uint64_t kRealtimeStart = 1'700'000'000;  // seconds since 1970

inline uint64_t start_of(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI
             ? kRealtimeStart
             : kMonotonicStart;
}
inline Time duration(const timespec& time) {
  return (static_cast<Time>(time.tv_sec) * 1'000'000'000 + static_cast<Time>(time.tv_nsec)) *
         kNanosecond;
}
inline timespec timespec_of(Time time) {
  const Time ns = time / kNanosecond;
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}
// The engine's time at which `clock` shows `time`.
inline Time deadline_of(clockid_t clock, const timespec* time) {
  if (time == nullptr) return kForever;
  const Time start = start_of(clock) * 1'000'000'000 * kNanosecond, end = duration(*time);
  return end < start ? 0 : end - start;
}
inline bool is_valid(const timespec* time) {
  return time == nullptr || (time->tv_nsec >= 0 && time->tv_nsec < 1'000'000'000);
}

}  // namespace near::manycore

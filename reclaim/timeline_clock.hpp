// The functions of the clock that timelines need besides now().
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <ctime>

namespace near::reclaim {

// Reads a clock of the system, in nanoseconds.
uint64_t clock_ns(clockid_t clock) noexcept;

// Makes now() use the processor's counter if that is safe; takes 10 ms once in a process.
void calibrate_clock() noexcept;

}  // namespace near::reclaim

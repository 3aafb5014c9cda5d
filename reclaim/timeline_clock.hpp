// What timelines need of the clock beside now().
// Who may touch it: any thread.
#pragma once

#include <cstdint>
#include <ctime>

namespace near::reclaim {

// Nanoseconds of a clock of the system.
uint64_t clock_ns(clockid_t clock) noexcept;

// Makes now() use the processor's counter if it may; takes 10 ms once in a process.
void calibrate_clock() noexcept;

}  // namespace near::reclaim

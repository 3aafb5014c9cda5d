// A coarse monotonic clock for decay. Who may touch it: any thread.
#pragma once

#include <cstdint>

namespace near {

// Milliseconds since some start, to the kernel's tick (1 to 10 ms); wraps after 49 days, so compare
// differences only.
uint32_t coarse_now_ms();

}  // namespace near

#include "platform/clock.h"

namespace near {

uint64_t coarse_now_ms() { return clock_ns(CLOCK_MONOTONIC_COARSE) / 1'000'000; }

}  // namespace near

#include "platform/clock.h"

#include <ctime>

namespace near {

uint64_t coarse_now_ms() {
  struct timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1'000'000;
}

}  // namespace near

#include "platform/clock.h"

#include <ctime>

namespace near {

uint32_t coarse_now_ms() {
  struct timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint32_t>(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
}

}  // namespace near

#include "support/fake_clock.h"

#include <atomic>
#include <ctime>

#include "platform/clock.h"

namespace near_test {
namespace {

constinit std::atomic<uint64_t> passed_ms{0};

}  // namespace

void pass_time(uint64_t milliseconds) { passed_ms += milliseconds; }

}  // namespace near_test

namespace near {
// Replaces platform/clock.cc: the linker takes the first definition.
uint64_t coarse_now_ms() {
  struct timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  const auto real =
      static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1'000'000;
  return real + near_test::passed_ms;
}
}  // namespace near

#include "support/fake_clock.h"

#include <atomic>

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
  return clock_ns(CLOCK_MONOTONIC_COARSE) / 1'000'000 + near_test::passed_ms;
}
}  // namespace near

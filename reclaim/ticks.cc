#include "reclaim/ticks.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

namespace near {
namespace {

constexpr unsigned kPowerManagement = 0x8000'0007;
constexpr unsigned kInvariantTsc = 1u << 8;  // in EDX

bool kernel_uses_tsc() {
  const char* const name = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
  const int file = open(name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[8];
  const ssize_t length = read(file, text, sizeof text);
  close(file);
  return length >= 4 && std::memcmp(text, "tsc\n", 4) == 0;
}

}  // namespace

bool ticks_are_a_clock() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool known = __get_cpuid(kPowerManagement, &eax, &ebx, &ecx, &edx) != 0;
  return known && (edx & kInvariantTsc) != 0 && kernel_uses_tsc();
}

}  // namespace near

#else

namespace near {

bool ticks_are_a_clock() { return false; }

}  // namespace near

#endif

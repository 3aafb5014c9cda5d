// The number of the CPU, on the real system: from rseq, and where glibc does not register it.
#include "platform/cpu.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "support/cases.h"

extern "C" {
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace near_test {
namespace {

// If GLIBC_TUNABLES=glibc.pthread.rseq=0 had no effect, both runs of this program would be the
// same.
TEST(Cpu, NothingIsRegisteredWhereItWasRefused) {
  const char* tunables = std::getenv("GLIBC_TUNABLES");
  const bool refused = tunables != nullptr && std::strstr(tunables, "rseq=0") != nullptr;
  if (!refused || &__rseq_size == nullptr) GTEST_SKIP() << "it was not refused";
  EXPECT_EQ(__rseq_size, 0u);
  count_cases();
}

void expect_to_know(size_t cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  ASSERT_EQ(sched_setaffinity(0, sizeof only, &only), 0);
  EXPECT_EQ(near::current_cpu(), cpu);
  count_cases();
}

TEST(Cpu, IsTheOneThatTheThreadRunsOn) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) GTEST_SKIP() << "too many processors";
  for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::thread([cpu] { expect_to_know(cpu); }).join();
  }
}

}  // namespace
}  // namespace near_test

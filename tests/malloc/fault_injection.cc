// Out of memory returns ENOMEM and corrupts nothing: the workload of fault_workload.cc is run with
// every call of the operating system refused in turn, once and for ever after, for each kind of
// call; and with little address space, little memory, and larger pages.
// Invariant: a case counts only if its fault was reached.
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "support/cases.h"
#include "support/child.h"
#include "support/fake_os.h"

namespace near_test {
namespace {

struct Setting {
  const char* name;
  std::vector<std::string> environment;
  std::string pretended;  // for NEAR_FAKE_OS
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

// The value after `name=` in what the workload printed last.
uint64_t number(const std::string& output, const std::string& name) {
  const size_t at = output.rfind(name + "=");
  return at == std::string::npos ? 0 : std::strtoull(&output[at + name.size() + 1], nullptr, 10);
}

class FaultInjection : public testing::TestWithParam<Setting> {
 protected:
  Ended run(const std::string& fault) {
    std::vector<std::string> environment = GetParam().environment;
    environment.emplace_back("NEARMALLOC_PURGE_THREAD=0");
    environment.emplace_back("NEARMALLOC_DECAY_MS=600000");
    environment.push_back("NEAR_FAKE_OS=" + GetParam().pretended + fault);
    const char* workload = std::getenv("NEAR_TEST_FAULT_WORKLOAD");
    if (workload == nullptr) throw std::runtime_error("NEAR_TEST_FAULT_WORKLOAD is not set");
    return run_child({workload}, environment);
  }

  // Refuses call number 1, 2, … of a kind, each in its own process, two at a time.
  void refuse_each(OsCall kind, bool forever, uint64_t calls, uint64_t step) {
    std::mutex mutex;
    uint64_t next = 1;
    uint64_t cases = 0;
    const auto work = [&] {
      while (true) {
        uint64_t nth = 0;
        {
          const std::lock_guard lock(mutex);
          if (next > calls || HasFailure()) return;
          nth = next;
          next += step;
        }
        const std::string fault = std::string(",fail=") + name_of(kind) + ":" +
                                  std::to_string(nth) + (forever ? ":forever" : ":once");
        const Ended ended = run(fault);
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(ended.well()) << fault << " ended with " << ended.status << "\n"
                                  << ended.output;
        EXPECT_GE(number(ended.output, "hit"), 1u) << fault << " was not reached";
        cases += number(ended.output, "hit") > 0 ? 1 : 0;
        // A single refusal never reaches the program: the allocator tries another way, or again.
        if (!forever && kind != OsCall::any) {
          EXPECT_EQ(number(ended.output, "refused"), 0u) << fault;
        }
      }
    };
    std::thread second(work);
    work();
    second.join();
    count_cases(cases);
  }
};

TEST_P(FaultInjection, EveryCallRefusedOnceAndForEver) {
  const Ended sound = run("");
  ASSERT_TRUE(sound.well()) << sound.output;
  ASSERT_EQ(number(sound.output, "refused"), 0u) << sound.output;
  ASSERT_GT(number(sound.output, "operations"), 5'000u) << sound.output;
  // With a scale below 1 only every n-th call is tried.
  const uint64_t step = 100 / scaled(100);
  for (unsigned i = 0; i <= kOsCalls; i++) {
    const auto kind = static_cast<OsCall>(i);
    const uint64_t calls = number(sound.output, name_of(kind));
    std::printf("%s: %s is called %zu times\n", GetParam().name, name_of(kind),
                static_cast<size_t>(calls));
    for (const bool forever : {false, true}) {
      if (kind == OsCall::any && !forever) continue;  // each of them was refused alone
      refuse_each(kind, forever, calls, kind == OsCall::any ? 4 * step : step);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, FaultInjection,
    testing::Values(Setting{"usual", {}, "page=4096"},
                    Setting{"small regions, two nodes",
                            {"NEARMALLOC_REGION_MIB=4", "NEARMALLOC_TOPOLOGY=nodes=2;cpus=0,1"},
                            "page=4096"},
                    Setting{"pages of 64 KiB", {}, "page=65536"}),
    [](const auto& setting) { return "Setting" + std::to_string(setting.index); });

class Shortage : public FaultInjection {};

TEST_P(Shortage, IsSurvived) {
  const Ended ended = run("");
  EXPECT_TRUE(ended.well()) << ended.output;
  EXPECT_GT(number(ended.output, "refused"), 0u) << ended.output;
  EXPECT_LT(number(ended.output, "refused"), number(ended.output, "operations") / 2)
      << ended.output;
  count_cases();
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Shortage,
    testing::Values(Setting{"16 MiB of address space", {}, "address_space=16777216"},
                    Setting{"16 MiB, 16 KiB pages", {}, "page=16384,address_space=16777216"},
                    Setting{"16 MiB, 64 KiB pages", {}, "page=65536,address_space=16777216"},
                    Setting{"16 MiB, two nodes",
                            {"NEARMALLOC_TOPOLOGY=nodes=2;cpus=0,1"},
                            "address_space=16777216"},
                    Setting{"8 MiB of memory", {}, "commit=8388608"},
                    Setting{"8 MiB, 64 KiB pages", {}, "page=65536,commit=8388608"}),
    [](const auto& setting) { return "Setting" + std::to_string(setting.index); });

class Plenty : public FaultInjection {};

TEST_P(Plenty, ServesAll) {
  const Ended ended = run("");
  EXPECT_TRUE(ended.well()) << ended.output;
  EXPECT_EQ(number(ended.output, "refused"), 0u) << ended.output;
  count_cases();
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Plenty,
    testing::Values(Setting{"16 KiB pages", {}, "page=16384"},
                    Setting{"64 KiB pages", {}, "page=65536"},
                    Setting{"256 MiB of address space", {}, "address_space=268435456"},
                    Setting{"sixty-four nodes",
                            {"NEARMALLOC_REGION_MIB=4", "NEARMALLOC_TOPOLOGY=nodes=64"},
                            "page=65536"},
                    Setting{"the smallest regions", {"NEARMALLOC_REGION_MIB=1"}, "page=4096"}),
    [](const auto& setting) { return "Setting" + std::to_string(setting.index); });

}  // namespace
}  // namespace near_test

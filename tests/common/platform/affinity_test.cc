// Threads that run on the CPUs of a node. Skipped where the process may use one CPU alone.
#include "platform/affinity.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>
#include <vector>

#include "support/cases.h"

namespace near_test {
namespace {

using near::Affinity;
using near::Topology;

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void allow(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
}

class AffinityTest : public testing::Test {
 protected:
  void SetUp() override {
    before_ = allowed_cpus();
    if (before_.size() < 2) GTEST_SKIP() << "one CPU";
    for (const int cpu : before_) topology_.node_of_cpu[cpu] = 1;
    topology_.count = 3;
    topology_.node_of_cpu[before_[0]] = 0;
  }
  void TearDown() override {
    if (before_.size() >= 2) allow(before_);
  }

  // The CPUs that a new thread may use after `run`.
  template <typename Run>
  std::vector<int> after(Run run) {
    std::vector<int> cpus;
    std::thread([&] {
      run();
      cpus = allowed_cpus();
    }).join();
    return cpus;
  }

  Topology topology_;  // node 0: the first CPU; node 1: the others; node 2: none
  std::vector<int> before_;
};

TEST_F(AffinityTest, AThreadMovesToTheCpusOfANodeAndBack) {
  const Affinity affinity;
  const std::vector<int> first = {before_[0]};
  const std::vector<int> others(before_.begin() + 1, before_.end());
  EXPECT_EQ(after([&] { affinity.move_to(topology_, 0); }), first);
  EXPECT_EQ(after([&] { affinity.move_to(topology_, 1); }), others);
  EXPECT_EQ(after([&] {
              affinity.move_to(topology_, 0);
              affinity.move_to(topology_, 2);
            }),
            before_)
      << "a node without CPUs";
  EXPECT_EQ(after([&] {
              affinity.move_to(topology_, 0);
              affinity.spread();
            }),
            before_);
  count_cases(4);
}

TEST_F(AffinityTest, TheMainThreadsChoiceStands) {
  const std::vector<int> chosen = {before_.back()};
  allow(chosen);
  const Affinity affinity;
  allow(before_);
  EXPECT_EQ(after([&] { affinity.move_to(topology_, 0); }), chosen) << "none of the first node's";
  EXPECT_EQ(after([&] { affinity.move_to(topology_, 1); }), chosen);
  EXPECT_EQ(after([&] { affinity.spread(); }), chosen) << "as it was when it was read";
  count_cases(3);
}

}  // namespace
}  // namespace near_test

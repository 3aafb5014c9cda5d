// The simulator itself: a seed plays the same in every process, and a fault is found, named by seed
// and step, and found again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/cases.h"
#include "support/child.h"

namespace near_test {
namespace {

Ended simulate(const std::vector<std::string>& arguments) {
  const char* simulator = std::getenv("NEAR_TEST_SIMULATOR");
  if (simulator == nullptr) return {1, "NEAR_TEST_SIMULATOR is not set"};
  std::vector<std::string> command{simulator};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_child(command, {});
}

// The first line that begins with `start`; empty if there is none.
std::string line_of(const std::string& output, const std::string& start) {
  for (size_t at = 0; at < output.size();) {
    const size_t end = std::min(output.find('\n', at), output.size());
    if (output.compare(at, start.size(), start) == 0) return output.substr(at, end - at);
    at = end + 1;
  }
  return "";
}

class Worlds : public testing::TestWithParam<const char*> {};

TEST_P(Worlds, ASeedPlaysTheSameInEveryProcess) {
  std::string before;
  for (const char* seed : {"11", "12"}) {
    const std::vector<std::string> arguments = {"--world", GetParam(), "--seed",
                                                seed,      "--steps",  "600"};
    const Ended once = simulate(arguments);
    ASSERT_TRUE(once.well()) << once.output;
    const std::string hash = line_of(once.output, "seed ");
    ASSERT_NE(hash.find("hash"), std::string::npos) << once.output;
    EXPECT_EQ(simulate(arguments).output, once.output);
    EXPECT_NE(hash.substr(hash.find("hash")), before);
    before = hash.substr(hash.find("hash"));
    count_cases(2);
  }
}

TEST_P(Worlds, LookingMoreOftenChangesNothing) {
  std::vector<std::string> arguments = {"--world", GetParam(), "--seed", "5", "--steps", "300"};
  const Ended seldom = simulate(arguments);
  arguments.insert(arguments.end(), {"--every", "1"});
  const Ended always = simulate(arguments);
  ASSERT_TRUE(always.well()) << always.output;
  EXPECT_EQ(line_of(always.output, "seed "), line_of(seldom.output, "seed "));
  count_cases();
}

INSTANTIATE_TEST_SUITE_P(Names, Worlds, testing::Values("1", "2", "4", "8", "memory-only"),
                         [](const auto& world) { return "World" + std::to_string(world.index); });

class Damage : public testing::TestWithParam<const char*> {};

// The step of a report "seed 7 step N: what".
uint64_t step_of(const std::string& report) {
  return std::strtoull(report.c_str() + std::string("seed 7 step ").size(), nullptr, 10);
}

TEST_P(Damage, IsFoundAndFoundAgain) {
  constexpr uint64_t kFrom = 150;
  const std::string damage = GetParam() + std::string("@") + std::to_string(kFrom);
  std::vector<std::string> arguments = {"--world", "4",   "--seed",   "7",
                                        "--steps", "500", "--damage", damage};
  const Ended found = simulate(arguments);
  EXPECT_FALSE(found.well()) << found.output;
  const std::string report = line_of(found.output, "seed 7 step ");
  EXPECT_GE(step_of(report), kFrom) << found.output;
  EXPECT_NE(line_of(found.output, "again: "), "") << found.output;
  EXPECT_EQ(line_of(simulate(arguments).output, "seed 7 step "), report);
  arguments.insert(arguments.end(), {"--every", "1"});
  const std::string first = line_of(simulate(arguments).output, "seed 7 step ");
  EXPECT_GE(step_of(first), kFrom);
  EXPECT_LE(step_of(first), step_of(report));
  count_cases(3);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Damage,
                         testing::Values("content", "list", "owner", "remote", "uncarved", "heap",
                                         "abort"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(Simulator, NoDamageNoReport) {
  const Ended sound = simulate({"--world", "4", "--seed", "7", "--steps", "500"});
  EXPECT_TRUE(sound.well()) << sound.output;
  EXPECT_EQ(line_of(sound.output, "seed 7 step "), "");
  count_cases();
}

TEST(Simulator, WrongUseIsToldFromAViolation) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--world", "flat"},
                                                {"--seed", "x"},
                                                {"--seeds", "3-1"},
                                                {"--every", "0"},
                                                {"--damage", "list"},
                                                {"--unknown", "1"},
                                                {"--seed"}}) {
    const Ended ended = simulate(wrong);
    EXPECT_EQ(ended.status, 2 << 8) << ended.output;
    EXPECT_NE(ended.output.find("usage: "), std::string::npos) << ended.output;
    count_cases();
  }
}

}  // namespace
}  // namespace near_test

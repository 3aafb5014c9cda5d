// Options: the table, setting by name, and the environment, which a process reads once: so each
// environment gets its own child.
// No test shows that a set-uid program reads nothing: a test cannot make itself privileged.
#include "platform/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "base/bits.h"
#include "span/address_map.h"
#include "support/cases.h"
#include "support/child.h"

namespace near_test {
namespace {

using near::kOptions;
using near::kOptionTable;

std::string text_of_all() {
  std::string all;
  for (unsigned i = 0; i < kOptions; i++) {
    const long value = near::option(static_cast<near::Option>(i));
    all += std::string(kOptionTable[i].name) + "=" + std::to_string(value) + "\n";
  }
  return all;
}

// What a child prints that runs this program's PrintsThem.
std::string options_under(const std::vector<std::string>& environment) {
  const Ended ended = run_child({own_path(), "--gtest_filter=OptionsInChild.*"}, environment);
  EXPECT_TRUE(ended.well()) << ended.output;
  count_cases();
  return ended.output;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t times(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) count++;
  return count;
}

TEST(OptionsInChild, PrintsThem) {
  near::read_options(environ);  // again: nothing may be said twice
  std::fputs(text_of_all().c_str(), stdout);
  const char* topology = near::topology_text();
  std::printf("topology: %s\n", topology == nullptr ? "none" : topology);
  count_cases();
}

TEST(Options, DefaultsAreInRange) {
  for (const near::OptionInfo& info : kOptionTable) {
    ASSERT_LE(info.lowest, info.initial) << info.name;
    ASSERT_GE(info.highest, info.initial) << info.name;
    ASSERT_GT(std::strlen(info.help), 10u) << info.name;
    count_cases();
  }
  const std::string output = options_under({});
  for (const near::OptionInfo& info : kOptionTable) {
    EXPECT_TRUE(has(output, std::string(info.name) + "=" + std::to_string(info.initial) + "\n"));
  }
  EXPECT_TRUE(has(output, "topology: none"));
}

TEST(Options, TheEnvironmentSetsThemByNumberAndByWord) {
  const std::string output =
      options_under({"NEARMALLOC_INVALID=report", "NEARMALLOC_DECAY_MS=77", "NEARMALLOC_BIND=2",
                     "NEARMALLOC_HUGE_PAGES=0", "NEARMALLOC_TOPOLOGY=nodes=2"});
  EXPECT_TRUE(has(output, "invalid=1\n")) << output;
  EXPECT_TRUE(has(output, "decay_ms=77\n")) << output;
  EXPECT_TRUE(has(output, "bind=2\n")) << output;
  EXPECT_TRUE(has(output, "huge_pages=0\n")) << output;
  EXPECT_TRUE(has(output, "topology: nodes=2\n")) << output;
  EXPECT_FALSE(has(output, "ignored")) << output;
}

TEST(Options, ABadValueIsReportedOnceAndIgnored) {
  for (const char* value : {"", "x", "-1", "3", "1x", " 1", "99999999999999999999", "repor"}) {
    const std::string output = options_under({std::string("NEARMALLOC_INVALID=") + value});
    EXPECT_EQ(times(output, "is ignored"), 1u) << output;
    EXPECT_TRUE(has(output, "invalid=0\n")) << output;
  }
  const std::string output = options_under({"NEARMALLOC_DECAY_MS=600001"});
  EXPECT_EQ(times(output, "is not a number from 0 to 600000"), 1u) << output;
  EXPECT_TRUE(has(output, "decay_ms=1000\n")) << output;
}

TEST(Options, AnUnknownNameIsReportedOnce) {
  const std::string output = options_under({"NEARMALLOC_DECAY=1", "NEARMALLOC_=1"});
  EXPECT_EQ(times(output, "there is no option NEARMALLOC_DECAY\n"), 1u) << output;
  EXPECT_EQ(times(output, "there is no option NEARMALLOC_\n"), 1u) << output;
}

TEST(Options, AWrongTopologyIsReportedOnceAndIgnored) {
  const std::string output = options_under({"NEARMALLOC_TOPOLOGY=nodes=none"});
  EXPECT_EQ(times(output, "NEARMALLOC_TOPOLOGY is ignored"), 1u) << output;
}

TEST(Options, TheSmallestRegionsAreAsSmallAsRegionsGet) {
  for (const char* mebibytes : {"1", "2", "3", "4"}) {
    const std::string output =
        options_under({std::string("NEARMALLOC_REGION_MIB=") + mebibytes, "NEARMALLOC_VERBOSE=1"});
    EXPECT_TRUE(has(output, "; 4 MiB planned for each")) << mebibytes << ": " << output;
  }
  const std::string output = options_under({"NEARMALLOC_REGION_MIB=5", "NEARMALLOC_VERBOSE=1"});
  EXPECT_TRUE(has(output, "; 6 MiB planned for each")) << output;
}

TEST(Options, SettingByNameKeepsTheRange) {
  const long before = near::option(near::Option::decay_ms);
  EXPECT_TRUE(near::set_option("decay_ms", 5));
  EXPECT_EQ(near::option(near::Option::decay_ms), 5);
  EXPECT_FALSE(near::set_option("decay_ms", -1));
  EXPECT_FALSE(near::set_option("decay_ms", 600001));
  EXPECT_FALSE(near::set_option("no_such_option", 1));
  EXPECT_EQ(near::option(near::Option::decay_ms), 5);
  EXPECT_TRUE(near::set_option("decay_ms", before));
  for (unsigned i = 0; i < kOptions; i++) EXPECT_EQ(near::find_option(kOptionTable[i].name), i);
  EXPECT_EQ(near::find_option("decay"), kOptions);
  count_cases(kOptions);
}

}  // namespace
}  // namespace near_test

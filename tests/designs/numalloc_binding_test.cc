// The binding of NUMAlloc: which node a thread gets, on four nodes with two processors each.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "designs/numalloc/binding/binding.h"
#include "designs/numalloc/binding/rules.h"
#include "designs/numalloc_room.h"

namespace near_test {
namespace {

using near::design::numalloc::binding::choose_node;
using near::design::numalloc::binding::forget_thread;
using near::design::numalloc::binding::kAnywhere;
using near::design::numalloc::binding::kNobody;
using near::design::numalloc::binding::Rule;
using near::design::numalloc::binding::Rules;

std::vector<int> choose(int threads) {
  std::vector<int> nodes;
  for (int i = 0; i < threads; i++) nodes.push_back(choose_node(nullptr));
  return nodes;
}

// Runs in a process of its own for each policy, because a policy cannot be undone.
TEST(Binding, FollowsItsPolicy) {
  set_cpu(2);  // of node 1: there the first thread is
  near_free(near_malloc(1));
  ASSERT_EQ(topology().count, 4u);
  const char* text = std::getenv("NEARMALLOC_DESIGN_OPTIONS");
  const std::string options = text != nullptr ? text : "";
  if (options == "binding=saturate") {
    EXPECT_EQ(choose(9), (std::vector<int>{1, 2, 2, 3, 3, 0, 0, 1, 1}));
    forget_thread(3);
    EXPECT_EQ(choose(1), std::vector<int>{3}) << "it has a processor left";
  } else if (options.starts_with("binding=file:")) {
    EXPECT_EQ(choose(4), (std::vector<int>{3, 3, kAnywhere, 0}));
  } else if (options == "binding=off") {
    EXPECT_EQ(choose(3), (std::vector<int>{kNobody, kNobody, kNobody}));
  } else {
    EXPECT_EQ(choose(9), (std::vector<int>{2, 3, 0, 1, 2, 3, 0, 1, 2}));
    // A thread that has ended, joined or detached, leaves its place to the next.
    forget_thread(0);
    EXPECT_EQ(choose(1), std::vector<int>{0});
    EXPECT_EQ(near::design::numalloc::binding::threads_on(2), 3u);
    EXPECT_EQ(near::design::numalloc::binding::bound_node(), 1);
  }
  count_cases();
}

TEST(Binding, AThreadWhoseAttributesNameProcessorsIsLeftAlone) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, near::kMiB);
  const char* text = std::getenv("NEARMALLOC_DESIGN_OPTIONS");
  if (text == nullptr) {
    EXPECT_GE(choose_node(&attributes), 0);
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
  EXPECT_EQ(choose_node(&attributes), kNobody);
  pthread_attr_destroy(&attributes);
  count_cases();
}

TEST(Binding, ABoundThreadAllocatesOnItsNodeUntilItEnds) {
  const char* text = std::getenv("NEARMALLOC_DESIGN_OPTIONS");
  if (text != nullptr) GTEST_SKIP() << "of the default alone";
  set_cpu(0);
  for (int i = 0; i < 8; i++) {
    const int node = choose_node(nullptr);
    const uint64_t before =
        near::design::numalloc::binding::threads_on(static_cast<unsigned>(node));
    // It starts on another node.
    on_cpu(static_cast<unsigned>((node + 1) % 4 * 2), [&] {
      near::design::numalloc::binding::bind_self(node);
      void* block = near_malloc(100);
      EXPECT_EQ(node_of(block), static_cast<unsigned>(node));
      near_free(block);
    });
    EXPECT_EQ(near::design::numalloc::binding::threads_on(static_cast<unsigned>(node)), before - 1);
    count_cases();
  }
}

// On three nodes, of which the second has none.
TEST(BindingToMemoryNodes, ANodeWithoutProcessorsGetsNoThread) {
  set_cpu(0);
  near_free(near_malloc(1));
  ASSERT_EQ(topology().count, 3u);
  EXPECT_EQ(choose(5), (std::vector<int>{2, 0, 2, 0, 2}));
  count_cases();
}

TEST(NumallocRules, TheFirstThatFitsCounts) {
  Rules rules;
  rules.parse("0 1\n1-3 saturate # some\n\n  2 0\n* any", "text", 2);
  EXPECT_EQ(rules.count(), 4u);
  EXPECT_EQ(rules.find(0).kind, Rule::Kind::node);
  EXPECT_EQ(rules.find(0).node, 1u);
  EXPECT_EQ(rules.find(2).kind, Rule::Kind::saturate);
  EXPECT_EQ(rules.find(4).kind, Rule::Kind::any);
  rules.parse("1 0", "text", 2);
  EXPECT_EQ(rules.find(0).kind, Rule::Kind::interleave);
  count_cases(6);
}

TEST(NumallocRules, WhatIsNoRuleIsIgnored) {
  for (const char* text :
       {"0", "0 2", "0 x", "3-1 0", "-1 0", "0 0 0", "0:0", "99999999999 0", "*0"}) {
    Rules rules;
    rules.parse(text, "text", 2);
    EXPECT_EQ(rules.count(), 0u) << text;
    count_cases();
  }
}

TEST(NumallocRules, AFileThatCannotBeReadOrIsTooLongIsReported) {
  Rules rules;
  EXPECT_FALSE(rules.read("/", 2)) << "a folder can be opened, and not read";
  const std::string path = testing::TempDir() + "near-rules-" + std::to_string(getpid());
  for (const size_t bytes : {16383u, 16384u, 20000u}) {
    std::ofstream(path) << "0 1\n" << std::string(bytes - 5, '#') << "\n";
    testing::internal::CaptureStderr();
    EXPECT_TRUE(rules.read(path.c_str(), 2));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(rules.count(), 1u);
    EXPECT_EQ(said.find("it is too long") != std::string::npos, bytes >= 16384) << said;
    count_cases();
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace near_test

// SCX with reused descriptors: what helpers do, and what late helpers do not do. The test's nodes
// call a hook at each step, so that one thread produces every interleaving of interest.
#include "nearmalloc/reclaim/impl/scx.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "support/cases.h"
#include "support/parallel.h"
#include "test_access.h"

namespace near_test {
namespace {

using near::reclaim::impl::kScxMostSlots;
using near::reclaim::impl::kScxSequence;
using near::reclaim::impl::scx_slot;

struct TestNode {
  bool freeze(uint64_t seen, uint64_t tag) {
    call(before_freeze);
    return info.compare_exchange_strong(seen, tag) || seen == tag;
  }
  void finalize() {
    call(before_finalize);
    finalized = true;
  }
  void swing(unsigned, TestNode* from, TestNode* to) {
    call(before_swing);
    if (child.compare_exchange_strong(from, to)) ++swings;
  }

  // Once: what happens in it takes the same steps.
  static void call(std::function<void()>& hook) {
    const std::function<void()> now = std::exchange(hook, nullptr);
    if (now) now();
  }

  std::atomic<uint64_t> info{0};
  std::atomic<TestNode*> child{nullptr};
  bool finalized = false;
  int swings = 0;
  std::function<void()> before_freeze, before_finalize, before_swing;
};

using Table = near::reclaim::impl::ScxTable<TestNode>;
using Update = Table::Update;

// Three nodes in a row; an update replaces `middle` by `fresh`, which cuts off two nodes.
struct ScxTest : testing::Test {
  ScxTest() {
    top.child = &middle;
    middle.child = &last;
  }

  Update update() {
    Update made;
    made.freeze(&top, top.info);
    made.freeze(&middle, middle.info);
    made.freeze(&last, last.info);
    made.old = &middle;
    made.replacement = &fresh;
    return made;
  }

  void help(TestNode& from) {
    table.help(from.info, [](unsigned, TestNode*) {});
  }

  // Changes the info of a node, as an update elsewhere would.
  void disturb(TestNode& node) {
    Update other;
    other.freeze(&node, node.info);
    other.old = node.child;
    other.replacement = node.child;
    ASSERT_TRUE(table.scx(other));
  }

  void expect_carried_out() {
    EXPECT_EQ(top.child, &fresh);
    EXPECT_EQ(top.swings, 1);
    EXPECT_FALSE(top.finalized);
    EXPECT_TRUE(middle.finalized);
    EXPECT_TRUE(last.finalized);
    EXPECT_FALSE(table.is_in_progress(top.info));
    count_cases();
  }
  void expect_untouched() {
    EXPECT_EQ(top.child, &middle);
    EXPECT_EQ(top.swings, 0);
    EXPECT_FALSE(middle.finalized);
    EXPECT_FALSE(last.finalized);
    EXPECT_FALSE(table.is_in_progress(top.info));
    count_cases();
  }

  Table table;
  TestNode top, middle, last, fresh;
};

TEST_F(ScxTest, CarriesOutAnUpdateNobodyDisturbs) {
  EXPECT_FALSE(table.is_in_progress(0));
  EXPECT_TRUE(table.scx(update()));
  expect_carried_out();
}

TEST_F(ScxTest, AHelperFinishesForAnOwnerStoppedAnywhere) {
  using Hook = std::function<void()> TestNode::*;
  const std::vector<std::pair<TestNode*, Hook>> places = {{&middle, &TestNode::before_freeze},
                                                          {&last, &TestNode::before_freeze},
                                                          {&middle, &TestNode::before_finalize},
                                                          {&last, &TestNode::before_finalize},
                                                          {&top, &TestNode::before_swing}};
  for (const auto& [node, hook] : places) {
    top.info = middle.info = last.info = 0;
    top.child = &middle;
    top.swings = 0;
    middle.finalized = last.finalized = false;
    bool helped = false;
    node->*hook = [&] {
      EXPECT_TRUE(table.is_in_progress(top.info));
      help(top);
      expect_carried_out();
      helped = true;
    };
    EXPECT_TRUE(table.scx(update()));
    EXPECT_TRUE(helped);
    expect_carried_out();
  }
}

TEST_F(ScxTest, AbortsIfANodeChangedSinceItWasLinked) {
  for (TestNode* node : {&top, &middle, &last}) {
    const Update late = update();
    disturb(*node);
    const int before = top.swings;
    EXPECT_FALSE(table.scx(late));
    top.swings -= before;
    expect_untouched();
    EXPECT_FALSE(table.is_in_progress(top.info) || table.is_in_progress(middle.info));
  }
  top.swings = 0;
  EXPECT_TRUE(table.scx(update())) << "what an aborted update froze can be linked again";
  expect_carried_out();
}

TEST_F(ScxTest, AHelperAbortsForItsOwner) {
  last.before_freeze = [&] {
    disturb(last);
    help(top);
    EXPECT_FALSE(table.is_in_progress(top.info));
  };
  EXPECT_FALSE(table.scx(update()));
  expect_untouched();
}

// The helper is stopped with what it read; meanwhile the update ends, and more follow in its slot.
TEST_F(ScxTest, ALateHelperChangesNothing) {
  TestNode newer;
  middle.before_freeze = [&] {  // the owner is here, and has frozen top
    top.before_freeze = [&] {   // the helper is here
      help(top);                // another one finishes
      expect_carried_out();
      Update next;
      next.freeze(&top, top.info);
      next.freeze(&fresh, fresh.info);
      next.old = &fresh;
      next.replacement = &newer;
      EXPECT_TRUE(table.scx(next));
      for (int i = 0; i < 5; ++i) disturb(top);
    };
    help(top);
  };
  EXPECT_TRUE(table.scx(update()));
  EXPECT_EQ(top.child, &newer);
  EXPECT_TRUE(fresh.finalized);
  EXPECT_FALSE(newer.finalized);
  EXPECT_FALSE(table.is_in_progress(top.info));
  count_cases();
}

TEST_F(ScxTest, TheTagOfAnUpdateThatIsOverIsNeverInProgressAgain) {
  std::set<uint64_t> tags;
  for (int i = 0; i < 1000; ++i) {
    disturb(top);
    EXPECT_FALSE(table.is_in_progress(top.info));
    EXPECT_TRUE(tags.insert(top.info).second);
    EXPECT_GE(top.info.load(), kScxSequence);
    count_cases();
  }
}

TEST_F(ScxTest, HelpProtectsEveryNodeBeforeItTouchesOne) {
  std::vector<TestNode*> held;
  middle.before_freeze = [&] {
    table.help(top.info, [&](unsigned i, TestNode* node) {
      EXPECT_LE(i, Update::kMostNodes);
      EXPECT_FALSE(middle.finalized);
      held.push_back(node);
    });
  };
  EXPECT_TRUE(table.scx(update()));
  EXPECT_EQ(held, (std::vector<TestNode*>{&top, &middle, &last, &middle}));
  count_cases();
}

TEST(ScxTable, ClaimsNestAndFollowThreads) {
  Table table;
  std::vector<TestNode> nodes(40);
  std::set<unsigned> slots;
  // Each update is begun while the ones before it are stopped.
  std::function<void(size_t)> go = [&](size_t i) {
    if (i == nodes.size()) return;
    nodes[i].before_swing = [&, i] { go(i + 1); };
    Update update;
    update.freeze(&nodes[i], 0);
    update.replacement = &nodes[i];
    EXPECT_TRUE(table.scx(update));
    EXPECT_TRUE(slots.insert(scx_slot(nodes[i].info)).second);
    count_cases();
  };
  go(0);
  EXPECT_EQ(slots.size(), nodes.size());
}

// Carries out an update as the thread of that number.
void update_as(Table& table, unsigned number) {
  const unsigned before = std::exchange(near::reclaim::impl::own_number, number + 1);
  TestNode node;
  Update update;
  update.freeze(&node, 0);
  update.replacement = &node;
  EXPECT_TRUE(table.scx(update));
  EXPECT_EQ(node.child, &node);
  near::reclaim::impl::own_number = before;
  count_cases();
}

TEST(ScxTable, ServesMoreThreadsThanItHasSlots) {
  Table table;
  for (unsigned number = 0; number < 2 * kScxMostSlots; ++number) update_as(table, number);
}

TEST(ScxTable, GrowsWithThreadsThatLiveAtOnceAndNotWithThoseThatEnded) {
  Table table;
  const size_t threads = scaled(1000);
  for (size_t i = 0; i < threads; ++i) {
    std::thread([&] { update_as(table, near::reclaim::impl::thread_number()); }).join();
  }
  EXPECT_EQ(near::reclaim::impl::TestAccess::chunks(table), 1u);
}

TEST(ThreadNumbers, AreDistinctAndSmallerThanTheMostThreadsThatHaveOne) {
  constexpr unsigned kThreads = 20;
  const unsigned mine = near::reclaim::impl::thread_number();
  EXPECT_EQ(near::reclaim::impl::thread_number(), mine);
  for (int round = 0; round < 10; ++round) {
    std::vector<unsigned> numbers(kThreads);
    std::latch all(kThreads);
    run_threads(kThreads, [&](size_t i) {
      numbers[i] = near::reclaim::impl::thread_number();
      all.arrive_and_wait();
    });
    std::set<unsigned> distinct(numbers.begin(), numbers.end());
    EXPECT_EQ(distinct.size(), kThreads);
    EXPECT_EQ(distinct.count(mine), 0u);
    EXPECT_LE(*distinct.rbegin(), kThreads);
    count_cases();
  }
}

}  // namespace
}  // namespace near_test

// Counters that wrap, each near its end: no thread waits for ever, and no object is freed early.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <latch>
#include <new>
#include <thread>
#include <vector>

#include "every_scheme.h"
#include "nearmalloc/reclaim/impl/scx.hpp"
#include "platform/clock.h"
#include "support/cases.h"
#include "test_access.h"

namespace near_test {
namespace {

using namespace near::reclaim;
using impl::TestAccess;
using impl::TokenRing;

constexpr uint64_t kRounds = uint64_t{1} << 40;
// Long after any program has ended, and short of the bit that the announcement takes.
constexpr uint64_t kLateEpoch = (uint64_t{1} << 62) - 2;

// A domain whose clock is this many rounds, or epochs, before its end.
template <class Scheme>
class LateDomain : public domain<Scheme> {
 public:
  explicit LateDomain(uint64_t before_end, const options& settings = {})
      : domain<Scheme>(settings) {
    impl::Core& core = TestAccess::core(*this);
    new (&core.ring) TokenRing(kRounds - before_end);
    core.clock.epoch = kLateEpoch - before_end;
  }
  uint64_t round() { return TestAccess::core(*this).ring.round(); }
};

template <class Scheme>
class CountersTest : public testing::Test {
 protected:
  void SetUp() override { live_objects = 0; }
};
TYPED_TEST_SUITE(CountersTest, EveryScheme);

options small_batches() {
  options settings;
  settings.batch_size = 8;
  settings.operations_between_checks = 1;
  return settings;
}

TYPED_TEST(CountersTest, OneThreadFreesBeyondTheLastRound) {
  for (uint64_t before = 1; before < 6; before++) {
    LateDomain<TypeParam> domain(before, small_batches());
    auto handle = domain.attach();
    for (int i = 0; i < 5000; i++) handle.pin().retire(new CountedObject);
    EXPECT_LT(domain.collect().unreclaimed, 1000u);
    if (TypeParam::traits.scheme == impl::Scheme::token) {
      EXPECT_LT(domain.round(), kRounds / 2);
    }
    count_cases();
  }
}

TYPED_TEST(CountersTest, ThreadsThatKeepTheTokenFreeBeyondTheLastRound) {
  options settings = small_batches();
  settings.skip_idle = false;
  LateDomain<TypeParam> domain(3, settings);
  auto one = domain.attach();
  auto two = domain.attach();
  for (int i = 0; i < 5000; i++) {
    one.pin().retire(new CountedObject);
    two.pin().retire(new CountedObject);
  }
  EXPECT_LT(domain.collect().unreclaimed, 1000u);
  count_cases();
}

TYPED_TEST(CountersTest, BarriersEndBeyondTheLastRound) {
  for (uint64_t before = 1; before < 6; before++) {
    LateDomain<TypeParam> domain(before);
    for (int i = 0; i < 10; i++) domain.retire(new CountedObject);
    domain.barrier();
    domain.barrier();
    EXPECT_EQ(live_objects, 0);
    if constexpr (TypeParam::has_grace_periods) domain.synchronize();
    count_cases();
  }
}

TYPED_TEST(CountersTest, WhatIsLeftBeforeTheLastRoundIsAdoptedAfterIt) {
  for (uint64_t before = 1; before < 6; before++) {
    LateDomain<TypeParam> domain(before, small_batches());
    auto stays = domain.attach();
    {
      auto leaves = domain.attach();
      leaves.pin().retire(new CountedObject);
    }
    std::latch retired{1};
    std::latch end{1};
    std::thread idle([&] {
      domain.retire(new CountedObject);
      retired.count_down();
      end.wait();
    });
    retired.wait();
    for (int i = 0; i < 20'000; i++) stays.pin().retire(new char);
    EXPECT_EQ(live_objects, 0);
    end.count_down();
    idle.join();
    count_cases();
  }
}

TYPED_TEST(CountersTest, AnObjectOutlivesItsReaderAcrossTheLastRound) {
  LateDomain<TypeParam> domain(1, small_batches());
  std::atomic<CountedObject*> source{new CountedObject};
  auto reader = domain.attach();
  auto writer = domain.attach();
  {
    auto guard = reader.pin();
    guard.protect(0, source);
    writer.retire(source.exchange(nullptr));
    for (int i = 0; i < 5000; i++) writer.pin().retire(new char);
    EXPECT_EQ(live_objects, 1);
  }
  for (int i = 0; i < 5000; i++) {
    writer.pin().retire(new char);
    auto guard = reader.pin();
  }
  EXPECT_EQ(live_objects, 0);
  count_cases();
}

// 24 bits say where the token is.
TYPED_TEST(CountersTest, MoreThreadsThanTheTokenCanNameAreRefused) {
  domain<TypeParam> domain;
  auto first = domain.attach();
  TestAccess::records(domain) = TokenRing::kIndexMask;
  auto last = domain.attach();
  EXPECT_THROW((void)domain.attach(), std::bad_alloc);
  EXPECT_THROW((void)domain.attach(), std::bad_alloc);
  for (int i = 0; i < 3000; i++) last.pin().retire(new CountedObject);
  EXPECT_LT(live_objects, 3000);
  count_cases();
}

TEST(Counters, RoundsAreComparedByTheirDifference) {
  EXPECT_TRUE(TokenRing::has_passed(5, 2, 3));
  EXPECT_FALSE(TokenRing::has_passed(4, 2, 3));
  EXPECT_TRUE(TokenRing::has_passed(1, kRounds - 2, 3));
  EXPECT_FALSE(TokenRing::has_passed(0, kRounds - 2, 3));
  EXPECT_FALSE(TokenRing::has_passed(kRounds - 2, 1, 0));  // `then` is later
  EXPECT_TRUE(TokenRing::has_passed(kRounds / 2 - 1, 0, kRounds / 2 - 1));
  count_cases(6);
}

// 2^32 milliseconds are 49 days of uptime.
TEST(Counters, AStallIsOldAcross49Days) {
  constexpr uint64_t kDays = uint64_t{1} << 32;
  EXPECT_TRUE(near::is_old(kDays + 90, kDays - 10, 100));
  EXPECT_FALSE(near::is_old(kDays + 89, kDays - 10, 100));
  EXPECT_TRUE(near::is_old(kDays * 100, 0, 100));
  count_cases(3);
}

struct ScxNode {
  bool freeze(uint64_t seen, uint64_t tag) {
    return info.compare_exchange_strong(seen, tag) || seen == tag;
  }
  void finalize() {}
  void swing(unsigned, ScxNode* from, ScxNode* to) {
    fresh_is_free = !table->is_in_progress(to->info);
    child.compare_exchange_strong(from, to);
  }

  impl::ScxTable<ScxNode>* table = nullptr;
  std::atomic<uint64_t> info{0};
  std::atomic<ScxNode*> child{nullptr};
  bool fresh_is_free = false;
};

TEST(Counters, AnUpdateAfterTheLastSequenceIsNotTakenForNone) {
  for (uint64_t before = 0; before < 3; before++) {
    impl::ScxTable<ScxNode> table;
    for (unsigned slot = 0; slot < 16; slot++) {
      const uint64_t sequence = (UINT64_MAX / impl::kScxSequence - before) * impl::kScxSequence;
      TestAccess::status(table, slot) =
          sequence + slot * 4 + static_cast<uint64_t>(impl::ScxState::committed);
    }
    ScxNode top;
    ScxNode nodes[4];
    top.table = &table;
    for (ScxNode& fresh : nodes) {
      impl::ScxUpdate<ScxNode> update;
      update.freeze(&top, top.info);
      update.old = top.child;
      update.replacement = &fresh;
      EXPECT_TRUE(table.scx(update));
      EXPECT_EQ(top.child, &fresh);
      EXPECT_TRUE(top.fresh_is_free) << "a node that nobody has frozen seems to be frozen";
      EXPECT_FALSE(table.is_in_progress(top.info));
      EXPECT_GE(top.info, impl::kScxSequence);
    }
    count_cases();
  }
}

}  // namespace
}  // namespace near_test

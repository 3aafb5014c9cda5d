// Limbo bags when memory is refused: any block may be refused. Objects without room are leaked and
// counted; none is freed early or twice.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>

#include "nearmalloc/reclaim/domain.hpp"
#include "nearmalloc/reclaim/impl/limbo.hpp"
#include "refused_memory.h"
#include "support/cases.h"
#include "support/parallel.h"
#include "support/pattern.h"

namespace near_test {
namespace {

namespace reclaim = near::reclaim;
using reclaim::impl::EntryBlock;
using reclaim::impl::Limbo;

struct Thing {
  unsigned destroyed = 0;
  bool held = false;
};

void destroy(void* object) noexcept { ++static_cast<Thing*>(object)->destroyed; }

// As guards do.
void push(Limbo& limbo, Thing& thing) {
  if (!limbo.try_push(&thing, destroy, sizeof thing)) limbo.leak();
}

constexpr size_t kThings = size_t{10} * EntryBlock::kEntries;
using Things = std::array<Thing, kThings>;

size_t destroyed(const Things& things) {
  size_t number = 0;
  for (const Thing& each : things) {
    EXPECT_LE(each.destroyed, 1u);
    number += each.destroyed;
  }
  return number;
}

void expect_books_balance(const Limbo& limbo) {
  EXPECT_EQ(limbo.retired(), limbo.freed() + limbo.lost() + limbo.held() + limbo.waiting());
}

TEST(LimboFault, WhatFindsNoBlockIsLostAndTheRestIsFreedOnce) {
  for (long blocks = 0; blocks <= 10; ++blocks) {
    Things things{};
    Limbo limbo;
    {
      const Refusing refusing(blocks);
      for (Thing& each : things) push(limbo, each);
      expect_books_balance(limbo);
    }
    const auto kept = static_cast<size_t>(blocks) * EntryBlock::kEntries;
    EXPECT_EQ(limbo.held(), kept);
    EXPECT_EQ(limbo.lost(), kThings - kept);
    EXPECT_EQ(destroyed(things), 0u);
    limbo.expire_all();
    EXPECT_EQ(limbo.free_expired(SIZE_MAX, {nullptr, nullptr}), kept);
    EXPECT_EQ(destroyed(things), kept);
    expect_books_balance(limbo);
    limbo.free_spares();
    count_cases();
  }
}

// With memory again, a limbo that lost objects takes new ones.
TEST(LimboFault, GoesOnAfterARefusal) {
  Things things{};
  Limbo limbo;
  for (size_t i = 0; i < kThings; ++i) {
    const Refusing refusing(i % 100 < 50 ? 0 : Refusing::kNever);
    push(limbo, things[i]);
    expect_books_balance(limbo);
  }
  EXPECT_GT(limbo.lost(), 0u);
  EXPECT_GT(limbo.held(), limbo.lost());
  limbo.expire_all();
  EXPECT_EQ(limbo.free_expired(SIZE_MAX, {nullptr, nullptr}), kThings - limbo.lost());
  EXPECT_EQ(destroyed(things), kThings - limbo.lost());
  limbo.free_spares();
  count_cases();
}

// One object in `every` is held; sift needs blocks for them before it has emptied any.
void sift_without_memory(size_t every, long blocks) {
  SCOPED_TRACE(testing::Message() << "one held in " << every << ", " << blocks << " blocks");
  Things things{};
  Limbo limbo;
  for (size_t i = 0; i < kThings; ++i) {
    things[i].held = i % every == 0;
    push(limbo, things[i]);
  }
  {
    const Refusing refusing(blocks);
    limbo.sift([](const EntryBlock& block, uint32_t i) {
      return static_cast<const Thing*>(block.entries[i].object)->held;
    });
  }
  expect_books_balance(limbo);
  const size_t held = (kThings + every - 1) / every;
  EXPECT_EQ(limbo.waiting(), kThings - held);
  EXPECT_EQ(limbo.held() + limbo.lost(), held);
  // Without a block, all held objects of the first bag are lost.
  EXPECT_EQ(limbo.lost() > 0, blocks == 0);
  EXPECT_EQ(limbo.free_expired(SIZE_MAX, {nullptr, nullptr}), kThings - held);
  for (const Thing& each : things) ASSERT_EQ(each.destroyed, each.held ? 0u : 1u);
  limbo.expire_all();
  EXPECT_EQ(limbo.free_expired(SIZE_MAX, {nullptr, nullptr}), held - limbo.lost());
  EXPECT_EQ(destroyed(things), kThings - limbo.lost());
  expect_books_balance(limbo);
  limbo.free_spares();
  count_cases();
}

TEST(LimboFault, ASiftWithoutMemoryLosesHeldObjectsAndFreesNone) {
  for (const size_t every : {1u, 2u, 3u, 63u}) {
    for (const long blocks : {0, 8, 10}) sift_without_memory(every, blocks);
  }
}

std::atomic<long> live{0};

// Its destructor retires another object, while memory may be refused.
template <class Scheme>
struct Chained {
  Chained(reclaim::domain<Scheme>& its_home, unsigned its_depth)
      : home(its_home), depth(its_depth) {
    ++live;
  }
  ~Chained() {
    --live;
    if (depth > 0) home.retire(new Chained(home, depth - 1));
  }
  Chained(const Chained&) = delete;
  Chained& operator=(const Chained&) = delete;
  reclaim::domain<Scheme>& home;
  const unsigned depth;
};

template <class Scheme>
void retire_in_need(reclaim::domain<Scheme>& domain, uint64_t number) {
  domain.retire(new Chained<Scheme>(domain, 0));  // attaches
  Random random(seed() + number);
  for (int i = 0; i < 4000; ++i) {
    auto* const object = new Chained<Scheme>(domain, static_cast<unsigned>(random.below(3)));
    const Refusing refusing(random.below(2) == 0 ? 0 : Refusing::kNever);
    domain.retire(object);
  }
}

template <class Scheme>
uint64_t lost_in_balance() {
  live = 0;
  reclaim::options settings;
  settings.batch_size = 1000;  // so that bags take new blocks all the time
  settings.reclaim = reclaim::policy::amortized(4);
  reclaim::domain<Scheme> domain(settings);
  run_threads(3, [&](uint64_t number) { retire_in_need(domain, number); });
  const reclaim::statistics before = domain.collect();
  EXPECT_EQ(before.retired, before.freed + before.unreclaimed + before.lost);
  EXPECT_EQ(live, static_cast<long>(before.unreclaimed + before.lost));
  for (int i = 0; i < 4; ++i) domain.barrier();  // a chain takes one for each link
  const reclaim::statistics after = domain.collect();
  EXPECT_EQ(after.unreclaimed, 0u);
  EXPECT_EQ(after.retired, after.freed + after.lost);
  EXPECT_EQ(live, static_cast<long>(after.lost));
  count_cases();
  return after.lost;
}

// How the threads run decides whether a refusal meets a bag that needs a block.
template <class Scheme>
void expect_books_balance_under() {
  uint64_t lost = 0;
  for (int round = 0; round < 100 && lost == 0; ++round) lost = lost_in_balance<Scheme>();
  EXPECT_GT(lost, 0u);
}

TEST(LimboFaultInDomain, UnderDebra) { expect_books_balance_under<reclaim::debra<>>(); }
TEST(LimboFaultInDomain, UnderTokens) { expect_books_balance_under<reclaim::token<>>(); }
TEST(LimboFaultInDomain, UnderHazardPointers) {
  expect_books_balance_under<reclaim::hazard_pointers>();
}
TEST(LimboFaultInDomain, UnderIbr) { expect_books_balance_under<reclaim::ibr>(); }
TEST(LimboFaultInDomain, UnderHyaline) { expect_books_balance_under<reclaim::hyaline>(); }
TEST(LimboFaultInDomain, UnderCheckpoints) { expect_books_balance_under<reclaim::checkpoints>(); }
TEST(LimboFaultInDomain, UnderPingEpochs) { expect_books_balance_under<reclaim::ping_epochs>(); }

TEST(LimboFault, AThreadWithoutARecordLosesWhatItRetires) {
  static int object = 0;
  reclaim::domain<reclaim::debra<>> domain;
  {
    const Refusing refusing(0);
    domain.retire(&object, [](void*) noexcept { FAIL() << "it was lost"; });
    EXPECT_THROW((void)domain.attach(), std::bad_alloc);
    EXPECT_THROW((void)domain.pin(), std::bad_alloc);
    EXPECT_EQ(refusals(), 3u);
  }
  EXPECT_EQ(domain.collect().lost, 1u);
  EXPECT_EQ(domain.collect().retired, 1u);
  domain.retire(new int);
  domain.barrier();
  EXPECT_EQ(domain.collect().freed, 1u);
  count_cases();
}

TEST(FreeRun, WithoutNearmallocObjectsAreFreedOneByOne) {
  EXPECT_EQ(reclaim::impl::free_run(true).many, nullptr);
  reclaim::domain<reclaim::debra<>> domain;
  for (int i = 0; i < 1000; ++i) domain.retire(new int);
  domain.barrier();
  EXPECT_EQ(domain.collect().freed, 1000u);
  count_cases();
}

}  // namespace
}  // namespace near_test

// The word of remote frees: one delivery for each filling, an owner that cannot change
// meanwhile, and no lost block.
#include "span/remote_list.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "span/layout.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using near::Block;
using near::RemoteList;
using near::SpanBlocks;

class RemoteListTest : public testing::Test {
 protected:
  RemoteListTest() { list_.open(7, 63, 12); }

  static constexpr size_t kBlocks = 4096;
  Block* block(size_t index) { return blocks_.at(static_cast<uint32_t>(index)); }

  // Blocks from `at` on, chained as single frees would leave them: the last of them comes first.
  RemoteList<Block>::Chain chain(size_t at, uint32_t count) {
    for (size_t i = at + count - 1; i > at; i--) block(i)->link_to(block(i - 1));
    return {block(at + count - 1), block(at), count};
  }

  RemoteList<Block>::Pushed push_chain(size_t at, uint32_t count) {
    return list_.push_chain(blocks_, chain(at, count), list_.look());
  }

  alignas(near::kSliceSize) char room_[kBlocks * near::kBlockAlign] = {};
  SpanBlocks blocks_{room_};
  RemoteList<Block> list_;
};

TEST_F(RemoteListTest, OnlyThePushThatFindsItEmptyDelivers) {
  for (size_t i = 0; i < kBlocks; i++) {
    const auto pushed = list_.push(blocks_, block(i));
    ASSERT_EQ(pushed.first, i == 0);
    ASSERT_EQ(pushed.owner, 7u);
    ASSERT_EQ(pushed.count, i + 1);
    ASSERT_FALSE(pushed.repeated);
    ASSERT_EQ(list_.count(), i + 1);
    count_cases();
  }
  EXPECT_EQ(list_.peek(blocks_), block(kBlocks - 1));
  const auto chain = list_.take(blocks_);
  EXPECT_EQ(chain.count, kBlocks);
  EXPECT_EQ(chain.last, block(0));
  const Block* at = chain.first;
  for (size_t i = kBlocks; i-- > 0; at = at->next()) ASSERT_EQ(at, block(i));
  EXPECT_EQ(at, nullptr);
  EXPECT_EQ(list_.count(), 0u);
  EXPECT_EQ(list_.owner(), 7u);
  EXPECT_EQ(list_.peek(blocks_), nullptr);
  EXPECT_TRUE(list_.push(blocks_, block(5)).first);
}

TEST_F(RemoteListTest, TheHeadPushedAgainIsADoubleFree) {
  EXPECT_FALSE(list_.push(blocks_, block(0)).repeated);  // index 0 is also what an empty word holds
  EXPECT_TRUE(list_.push(blocks_, block(0)).repeated);
  EXPECT_FALSE(list_.push(blocks_, block(9)).repeated);
  EXPECT_TRUE(list_.push(blocks_, block(9)).repeated);
  EXPECT_EQ(list_.count(), 2u);
  EXPECT_EQ(list_.take(blocks_).count, 2u);
  count_cases(4);
}

TEST_F(RemoteListTest, AChainIsPushedWhole) {
  size_t at = 0;
  for (const uint32_t length : {3u, 1u, 64u, 2u}) {
    const auto pushed = push_chain(at, length);
    EXPECT_EQ(pushed.first, at == 0);
    EXPECT_EQ(pushed.owner, 7u);
    EXPECT_EQ(pushed.node, 63u);
    EXPECT_EQ(pushed.count, at + length);
    EXPECT_FALSE(pushed.repeated);
    at += length;
    count_cases();
  }
  EXPECT_FALSE(list_.push(blocks_, block(at)).first);
  const auto taken = list_.take(blocks_);
  EXPECT_EQ(taken.count, at + 1);
  EXPECT_EQ(taken.last, block(0)) << "of the chain that found the list empty";
  const Block* each = taken.first;
  for (size_t i = at + 1; i-- > 0; each = each->next()) ASSERT_EQ(each, block(i));
  EXPECT_EQ(each, nullptr);
}

TEST_F(RemoteListTest, AChainThatBeginsWithTheHeadIsADoubleFree) {
  EXPECT_FALSE(push_chain(0, 4).repeated);
  const uintptr_t before = block(3)->link;
  const auto pushed = list_.push_chain(blocks_, {block(9), block(3), 2}, list_.look());
  EXPECT_TRUE(pushed.repeated);
  EXPECT_FALSE(pushed.first);
  EXPECT_EQ(pushed.count, 4u);
  EXPECT_EQ(block(3)->link, before) << "nothing was written";
  EXPECT_FALSE(push_chain(5, 2).repeated);
  EXPECT_EQ(list_.take(blocks_).count, 6u);
  count_cases(3);
}

TEST_F(RemoteListTest, TheOwnerChangesOnlyWhileItIsEmpty) {
  EXPECT_FALSE(list_.change_owner(8, 9));
  EXPECT_TRUE(list_.change_owner(7, 65535));
  EXPECT_EQ(list_.owner(), 65535u);
  const auto pushed = list_.push(blocks_, block(3));
  EXPECT_EQ(pushed.owner, 65535u);
  EXPECT_EQ(pushed.node, 63u) << "stays what it is";
  EXPECT_FALSE(list_.change_owner(65535, 7));
  list_.take(blocks_);
  EXPECT_TRUE(list_.change_owner(65535, 0));  // a head left over in the word does not matter
  EXPECT_EQ(list_.owner(), 0u);
  count_cases(5);
}

TEST_F(RemoteListTest, OneLookTellsWhatStaysUntilItIsClosed) {
  const auto demand = [this](uint32_t owner, uint32_t count) {
    const auto seen = list_.look();
    EXPECT_TRUE(seen.is_open());
    EXPECT_EQ(seen.size_class(), 12u);
    EXPECT_EQ(seen.node(), 63u);
    EXPECT_EQ(seen.owner(), owner);
    EXPECT_EQ(seen.count(), count);
    count_cases();
  };
  demand(7, 0);
  list_.push(blocks_, block(kBlocks - 1));
  demand(7, 1);
  list_.take(blocks_);
  demand(7, 0);
  ASSERT_TRUE(list_.change_owner(7, 65535));
  demand(65535, 0);
  list_.close();
  EXPECT_FALSE(list_.look().is_open());
  list_.open(0, 0, 0);
  EXPECT_TRUE(list_.look().is_open()) << "as the first class of heap 0 on node 0";
}

TEST_F(RemoteListTest, AChainIsPushedThoughTheLookIsOld) {
  const auto seen = list_.look();
  list_.push(blocks_, block(20));
  const auto pushed = list_.push_chain(blocks_, chain(0, 3), seen);
  EXPECT_FALSE(pushed.first) << "the list is not as it was seen";
  EXPECT_EQ(pushed.count, 4u);
  EXPECT_EQ(block(0)->next(), block(20));
  count_cases();
}

// A second free of a block whose span was closed between the look and the push.
TEST_F(RemoteListTest, WhatIsPushedOntoAClosedListIsADoubleFree) {
  const auto seen = list_.look();
  list_.close();
  EXPECT_TRUE(list_.push_chain(blocks_, chain(0, 1), seen).repeated) << "found when it pushes";
  EXPECT_TRUE(list_.push_chain(blocks_, chain(0, 1), list_.look()).repeated) << "seen before";
  EXPECT_EQ(list_.count(), 0u);
  EXPECT_FALSE(list_.look().is_open());
  count_cases(2);
}

TEST_F(RemoteListTest, TakingFromAnEmptyOneGivesNothing) {
  const auto chain = list_.take(blocks_);
  EXPECT_EQ(chain.first, nullptr);
  EXPECT_EQ(chain.count, 0u);
  count_cases();
}

// Pushing threads hand blocks over repeatedly; each delivery lets the taker take once.
TEST_F(RemoteListTest, NothingIsLostOrDoubledUnderContention) {
  constexpr size_t kPushers = 3;
  const size_t rounds = scaled(40);
  constexpr size_t kEach = kBlocks / kPushers;
  std::vector<std::atomic<int>> held(kBlocks);  // 1: pushed, 0: taken back
  std::atomic<size_t> deliveries{0};
  std::atomic<size_t> pushing{kPushers};
  Threads threads(kPushers, [&](size_t t) {
    for (size_t round = 0; round < rounds; round++) {
      for (size_t i = t * kEach; i < (t + 1) * kEach; i++) {
        while (held[i].exchange(1) != 0) std::this_thread::yield();
        // Odd rounds push each even block as a chain with the odd one after it.
        if (round % 2 == 1 && i % 2 == 0 && i + 1 < (t + 1) * kEach) continue;
        const bool alone = round % 2 == 0 || i % 2 == 0 || i == t * kEach;
        const auto pushed = alone ? list_.push(blocks_, block(i)) : push_chain(i - 1, 2);
        if (pushed.first) deliveries.fetch_add(1);
      }
    }
    pushing.fetch_sub(1);
  });
  size_t taken = 0;
  size_t served = 0;
  while (pushing.load() > 0 || served < deliveries.load()) {
    if (served == deliveries.load()) {
      std::this_thread::yield();
      continue;
    }
    served++;
    const auto chain = list_.take(blocks_);
    ASSERT_GT(chain.count, 0u);
    uint32_t linked = 0;
    for (Block* at = chain.first; at != nullptr; linked++) {
      Block* next = at == chain.last ? nullptr : at->next();
      ASSERT_EQ(held[blocks_.index_of(at)].exchange(0), 1);
      at = next;
    }
    ASSERT_EQ(linked, chain.count);
    taken += chain.count;
  }
  threads.join();
  EXPECT_EQ(taken, kPushers * kEach * rounds);
  EXPECT_EQ(list_.count(), 0u);
  count_cases(taken);
}

}  // namespace
}  // namespace near_test

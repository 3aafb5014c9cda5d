// What the thesis claims of each step from super0 to supersocket, and the fixed defects of the
// original, tested on the parts.
// Invariant: eight processors on two sockets, whatever the machine has (super.cmake); each test has
// a bin of its own, whose caches are empty when it starts.
// Thread-safety: only the thread that runs the test uses it.
#include "designs/super/super.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "designs/counters.h"
#include "designs/late_frees.h"
#include "designs/super/cpu_cache.h"
#include "designs/super/global_cache.h"
#include "designs/super/huge.h"
#include "designs/super/socket_cache.h"
#include "designs/zeroed.h"
#include "support/cases.h"
#include "support/fake_cpu.h"
#include "support/fake_os.h"
#include "support/forked.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace near::design::super;
using near::kMiB;
using near::design::Block;
using near::design::BlockList;

GlobalCache::Totals global(size_t size) { return global_caches[small_bin(size)].totals(); }

std::vector<void*> take(size_t count, size_t size) {
  std::vector<void*> blocks(count);
  for (void*& block : blocks) block = Super::allocate(size);
  return blocks;
}

void give(const std::vector<void*>& blocks) {
  for (void* block : blocks) Super::deallocate(block);
}

// Blocks of the bin that lie in caches instead of in the program.
size_t cached(size_t size) {
  const auto bin = static_cast<unsigned>(small_bin(size));
  size_t sum = global(size).cached + cached_by_threads(bin);
  for (unsigned cpu = 0; cpu < cpus; cpu++) sum += cpu_cache(cpu, bin).totals().cached;
  for (unsigned i = bin; i < socket_cache_count; i += kBins) {
    sum += socket_caches[i].totals().cached;
  }
  return sum;
}

// [Kim23 §4.1, §4.2.2]
TEST(SuperStart, TheGlobalLockIsTakenForManyBlocksAtATime) {
  constexpr size_t kBlocks = 20'000;
  constexpr size_t kList = kMiB / 64;
  take(kBlocks, 64);
  const GlobalCache::Totals now = global(64);
  switch (kVariant.fill) {
    case Fill::one:
      EXPECT_EQ(now.accesses, kBlocks);
      EXPECT_EQ(now.single, kBlocks);
      break;
    case Fill::half:
      EXPECT_EQ(now.accesses, 2u);
      EXPECT_EQ(now.filled, 4 * kList);
      break;
    case Fill::doubling:
      EXPECT_EQ(now.accesses, 15u);
      EXPECT_EQ(now.filled, (1u << 15) - 1);
      break;
  }
  count_cases(kBlocks);
}

// [Kim23 §4.3]
TEST(SuperStart, AFillIsTwiceTheOneBefore) {
  if (kVariant.fill != Fill::doubling) GTEST_SKIP() << "filled at once, or not at all";
  take(15, 80);
  EXPECT_EQ(global(80).filled, 15u);
  EXPECT_EQ(global(80).accesses, 4u);
  take(1, 80);
  EXPECT_EQ(global(80).filled, 31u);
  EXPECT_EQ(global(80).accesses, 5u);
  count_cases(2);
}

// [Kim23 §4.2.2]
TEST(SuperFull, AFullGlobalCacheIsFreedToHalfOrBlocksAreFreedOneByOne) {
  constexpr size_t kSize = 1200;
  constexpr size_t kBlocks = 25'000;
  give(take(kBlocks, kSize));
  const GlobalCache::Totals now = global(kSize);
  if (kVariant.drain) {
    EXPECT_GE(now.drained, 4 * kMiB / 1216);
    EXPECT_EQ(now.freed, 0u);
    EXPECT_LT(now.accesses, kBlocks / 10);
  } else {
    EXPECT_EQ(now.drained, 0u);
    EXPECT_GT(now.freed, kBlocks / 4);
  }
  EXPECT_EQ(now.folios.in_use, cached(kSize));
  count_cases(kBlocks);
}

// [Kim23 §4.2.3]
TEST(SuperLists, WhatIsWalked) {
  constexpr size_t kSize = 900;
  const uint64_t before = counter("links_walked");
  for (int round = 0; round < 3; round++) give(take(12'000, kSize));
  // Two threads end with short lists, which are joined to one that is longer than full.
  const std::vector<void*> more = take(2000, 450);
  for (const auto half : {0, 1}) {
    std::thread([&] {
      for (int i = 0; i < 1000; i++) Super::deallocate(more[half * 1000 + i]);
    }).join();
  }
  std::thread([] { take(1, 450); }).join();
  if (kVariant.equal_lists) {
    EXPECT_EQ(counter("links_walked"), 0u);
  } else {
    EXPECT_GT(counter("links_walked"), before + 1000);
  }
  count_cases();
}

// [Kim23 §4.2.1]
TEST(SuperSocket, TheGlobalCacheIsAskedOnceForASocketNotForEachProcessor) {
  constexpr size_t kSize = 2100;
  set_cpu(0);
  give(take(10'000, kSize));
  ASSERT_GT(global(kSize).cached, 4 * kMiB / 2752);
  const uint64_t before = global(kSize).accesses;
  const auto bin = static_cast<unsigned>(small_bin(kSize));
  std::vector<void*> blocks;
  for (const unsigned cpu : {4u, 5u, 6u, 7u}) {
    std::thread([&] {
      set_cpu(cpu);
      blocks.push_back(Super::allocate(kSize));
    }).join();
  }
  EXPECT_EQ(global(kSize).accesses - before, kVariant.per_socket ? 1u : 4u);
  if (kVariant.per_socket) {
    EXPECT_EQ(socket_cache(1, bin).totals().accesses, 4u);
  } else {
    EXPECT_EQ(socket_cache_count, 0u);
  }
  give(blocks);
  count_cases(4);
}

// Under the constants of the binaries, on two processors (super.cmake).
class SuperPublished : public testing::Test {
 protected:
  static void SetUpTestSuite() { Super::deallocate(Super::allocate(1)); }
  static bool is(const char* name) { return std::string(kVariant.name) == name; }
};

TEST_F(SuperPublished, TheConstantsAreThoseOfTheBinariesUnlessTheThesisIsAskedFor) {
  EXPECT_EQ(settings.processors, 2u);
  EXPECT_EQ(settings.global_lists, is("super0") || is("super2") ? 8u : 192u);
  EXPECT_EQ(settings.cpu_lists, is("super3") ? 96u : 2u);
  EXPECT_EQ(settings.socket_lists, 48u);
  EXPECT_FALSE(settings.unmap_huge);
  count_cases(5);
}

// 1.5 million blocks of 64 bytes are 23,437 folios and a half. Kuszmaul's own build gives 20,338 of
// them back when they are freed in order by a thread that moves between two processors: the rest
// are in its caches, 8 lists of 1 MiB above two processors with two of them each.
TEST_F(SuperPublished, FreesGiveAsMuchBackAsTheOriginalDoes) {
  if (!is("super0")) GTEST_SKIP() << "a count of the original's";
  constexpr size_t kBlocks = 1'500'000;
  const uint64_t before = fake_os::calls(OsCall::purge);
  set_cpu(0);
  const std::vector<void*> blocks = take(kBlocks, 64);
  for (size_t i = 0; i < kBlocks; i++) {
    if (i == kBlocks / 2) set_cpu(1);
    Super::deallocate(blocks[i]);
  }
  const uint64_t purged = fake_os::calls(OsCall::purge) - before;
  EXPECT_EQ(purged, 20'360u);
  EXPECT_NEAR(static_cast<double>(purged), 20'338, 20'338 * 0.002);
  set_cpu(0);
  count_cases(kBlocks);
}

// The trees of chapter 4 free nodes of 240 bytes in batches and allocate as many again. What the
// caches hold never reaches the folios; the global lock is taken once for a list.
TEST_F(SuperPublished, BatchesThatTheCachesHoldReachNoFolio) {
  if (!is("super0")) GTEST_SKIP() << "a count of the original's";
  constexpr size_t kNodes = 25'000;
  constexpr size_t kRounds = 20;
  const uint64_t purged = fake_os::calls(OsCall::purge);
  give(take(kNodes, 240));
  const GlobalCache::Totals before = global(240);
  for (size_t round = 0; round < kRounds; round++) give(take(kNodes, 240));
  const GlobalCache::Totals after = global(240);
  EXPECT_EQ(after.single, before.single);
  EXPECT_EQ(after.freed, 0u);
  EXPECT_EQ(fake_os::calls(OsCall::purge), purged);
  const size_t lists = kNodes * 320 / kMiB + 1;
  EXPECT_LE(after.accesses - before.accesses, kRounds * 2 * lists);
  count_cases(kRounds * kNodes);
}

TEST(SuperConstants, OfTheThesisAndOfTheBinaries) {
  const Settings text = settings;
  EXPECT_EQ(text.global_lists, 8u);
  EXPECT_EQ(text.socket_lists, 4u);
  EXPECT_EQ(text.cpu_lists, 2u);
  EXPECT_EQ(text.list_bytes, kMiB);
  EXPECT_EQ(text.thread_list_bytes, kVariant.equal_lists ? kMiB : 8192);
  near::design::Switch& constants = switches()[0];
  ASSERT_STREQ(constants.name, "constants");
  constants.value = 1;
  apply_switches();
  const std::string name = kVariant.name;
  EXPECT_EQ(settings.global_lists, name == "super0" || name == "super2" ? 8u : 192u);
  EXPECT_EQ(settings.cpu_lists, name == "super3" ? 96u : 2u);
  EXPECT_EQ(settings.list_bytes, name == "super3" ? 8192 : kMiB);
  EXPECT_EQ(settings.thread_list_bytes, name == "super4" || name == "supersocket" ? kMiB : 8192);
  EXPECT_FALSE(settings.unmap_huge);
  EXPECT_EQ(settings.socket_lists, 48u);
  constants.value = 0;
  apply_switches();
  count_cases(2);
}

TEST(SuperConstants, TransactionsOnlyWhereThereAreAny) {
  near::design::Switch& sync = switches()[4];
  ASSERT_STREQ(sync.name, "sync");
  const long before = sync.value;
  sync.value = 1;
  testing::internal::CaptureStderr();
  apply_switches();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(settings.transactions, near::design::super::transaction::supported());
  EXPECT_EQ(said.empty(), near::design::super::transaction::supported()) << said;
  sync.value = 0;
  apply_switches();
  EXPECT_FALSE(settings.transactions);
  sync.value = before;
  apply_switches();
  count_cases();
}

TEST(SuperConstants, SectionsAreTransactionsWhereTheyAreAsked) {
  if (!settings.transactions) GTEST_SKIP() << "locks";
  // Blocks that are in caches from now on: no page fault ends a transaction, and no system call.
  give(take(600, 4000));
  const uint64_t before = counter("transactions_given_up");
  const uint64_t sections = counter("cpu_accesses");
  for (int i = 0; i < 50; i++) give(take(600, 4000));
  const uint64_t more = counter("cpu_accesses") - sections;
  EXPECT_GT(more, 10u);
  EXPECT_LT(counter("transactions_given_up") - before, more / 2);
  count_cases(more);
}

// The folios of a bin apart from all caches.
class FolioTest : public testing::Test {
 protected:
  static constexpr size_t kPerFolio = 64;

  FolioTest() {
    Super::deallocate(Super::allocate(1));
    folios_.start(static_cast<unsigned>(small_bin(700)), by_free_.data());
    BlockList list = folios_.take(4 * kPerFolio);
    while (!list.empty()) blocks_.push_back(list.pop());
  }

  void put(size_t folio, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++) {
      EXPECT_TRUE(folios_.put(blocks_[folio * kPerFolio + i]));
    }
  }
  size_t folio_of_next() {
    const Block* block = folios_.take(1).head;
    const auto at = std::find(blocks_.begin(), blocks_.end(), block);
    count_cases();
    return static_cast<size_t>(at - blocks_.begin()) / kPerFolio;
  }

  std::array<near::List<Folio>, kPerFolio + 1> by_free_{};
  FullestFit folios_;
  std::vector<void*> blocks_;
};

// Two folios are equally full: the original looked at emptier ones after the first of them.
TEST_F(FolioTest, TheFullestGivesNext) {
  put(0, 0, 10);
  put(1, 0, 30);
  put(2, 0, 2);
  put(3, 0, 2);
  size_t from[4] = {};
  for (int i = 0; i < 4; i++) from[folio_of_next()]++;
  EXPECT_EQ(from[2], 2u);
  EXPECT_EQ(from[3], 2u);
  for (int i = 0; i < 10; i++) EXPECT_EQ(folio_of_next(), 0u);
  EXPECT_EQ(folio_of_next(), 1u);
}

TEST_F(FolioTest, OneEmptyFolioIsKept) {
  const uint64_t before = fake_os::calls(OsCall::purge);
  put(1, 0, kPerFolio);
  EXPECT_EQ(fake_os::calls(OsCall::purge), before);
  put(2, 0, kPerFolio);
  EXPECT_EQ(fake_os::calls(OsCall::purge), before + 1);
  EXPECT_EQ(folio_of_next(), 1u);
  EXPECT_EQ(folios_.totals().in_use, 2 * kPerFolio + 1);
  count_cases(2);
}

TEST_F(FolioTest, ABlockIsFreedOnce) {
  EXPECT_TRUE(folios_.put(blocks_[5]));
  EXPECT_FALSE(folios_.put(blocks_[5]));
  EXPECT_FALSE(folios_.put(static_cast<char*>(blocks_.back()) + 704));  // never handed out
  EXPECT_EQ(folios_.totals().in_use, 4 * kPerFolio - 1);
  count_cases(3);
}

// In the original a processor's list that was not empty lost its count when it was refilled.
TEST(SuperLists, CountsSurviveEveryMove) {
  constexpr uint32_t kFull = 4;
  Block blocks[64];
  BlockList room[3];
  ListCache cache;
  cache.start(room, 3, kFull);
  size_t next = 0;
  const auto list_of = [&](uint32_t count) {
    BlockList list;
    while (list.count < count) list.add_last(&blocks[next++]);
    return list;
  };
  for (const uint32_t count : {4u, 2u, 5u, 1u, 1u}) EXPECT_TRUE(cache.put(list_of(count)));
  EXPECT_EQ(cache.blocks(), 13u);
  EXPECT_EQ(cache.count(), 3u);
  EXPECT_FALSE(cache.put(list_of(1))) << "all lists are full";
  EXPECT_EQ(cache.take_full().count, 4u);
  EXPECT_TRUE(cache.put(list_of(3)));
  EXPECT_EQ(cache.last().split(2).count, 2u);
  EXPECT_EQ(cache.last().count, 1u) << "the last is the only short one";
  size_t seen = 0;
  while (!cache.empty()) {
    BlockList list = cache.take();
    for (uint32_t left = list.count; left > 0; left--, seen++) EXPECT_NE(list.pop(), nullptr);
    EXPECT_TRUE(list.empty());
  }
  EXPECT_EQ(seen, 13u - 4 + 3 - 2);
  count_cases(seen);
}

// In the original a run that was pushed while another was popped was lost.
TEST(SuperHuge, NoRunIsLostBetweenThreads) {
  constexpr unsigned kThreads = 4;
  const uint64_t before = huge.totals().taken;
  run_threads(kThreads, [](size_t) {
    for (size_t round = 0; round < scaled(2000); round++) {
      Super::deallocate(Super::allocate(3 * kMiB));
      count_cases();
    }
  });
  EXPECT_LE(huge.totals().taken - before, kThreads);
  EXPECT_EQ(huge.totals().blocks, 0u);
}

TEST(SuperHuge, GrowsWithinItsRunAndIsZeroAgain) {
  auto* block = static_cast<char*>(Super::allocate(5 * kMiB));
  EXPECT_EQ(Super::usable_size(block), 6 * kMiB);
  EXPECT_TRUE(Super::resize(block, 8 * kMiB));
  EXPECT_FALSE(Super::resize(block, 8 * kMiB + 1));
  EXPECT_FALSE(Super::resize(block, 3 * kMiB)) << "a shorter one goes elsewhere";
  block[8 * kMiB - 1] = 1;
  Super::deallocate(block);
  auto* again = static_cast<char*>(Super::allocate_zeroed(8 * kMiB));
  EXPECT_EQ(again, block);
  EXPECT_EQ(again[8 * kMiB - 1], 0);
  Super::deallocate(again);
  count_cases(4);
}

// The published binaries keep the memory of huge blocks: unused memory is already zero.
TEST(SuperZeroed, HugeBlocksOfFreshMemoryCostNone) { expect_zeroed_blocks_to_be_fresh<Super>(); }

TEST(SuperLarge, BlocksBeginAtDifferentCacheLines) {
  std::vector<size_t> lines;
  std::vector<void*> blocks = take(50, 100'000);
  for (void* block : blocks) lines.push_back(reinterpret_cast<uintptr_t>(block) / 64 % 64);
  std::sort(lines.begin(), lines.end());
  const auto distinct = std::unique(lines.begin(), lines.end()) - lines.begin();
  EXPECT_GT(distinct, 20);
  give(blocks);
  count_cases(blocks.size());
}

TEST(SuperWrong, FreesAreReported) {
  auto* block = static_cast<char*>(Super::allocate(100));
  auto* large = static_cast<char*>(Super::allocate(3 * kMiB));
  EXPECT_DEATH(Super::deallocate(block + 16), "it is not a block");
  // Where a block of 64 bytes would start if the chunk's header were none.
  auto* small = static_cast<char*>(Super::allocate(64));
  char* chunk = small - reinterpret_cast<uintptr_t>(small) % (2 * kMiB);
  EXPECT_DEATH(Super::deallocate(chunk + 64), "it is not a block");
  Super::deallocate(small);
  EXPECT_DEATH(Super::deallocate(large + 64), "it is not a block");
  EXPECT_DEATH(Super::deallocate(reinterpret_cast<void*>(arena.start() + 64)), "not a block");
  Super::deallocate(block);
  Super::deallocate(large);
  EXPECT_DEATH(Super::deallocate(block), "it was freed before");
  EXPECT_DEATH(Super::deallocate(large), "it is not a block");
  count_cases(5);
}

TEST(SuperRefused, NothingIsLost) {
  constexpr size_t kSize = 10'000;
  std::vector<void*> blocks;
  blocks.push_back(Super::allocate(kSize));
  fake_os::fail(OsCall::commit, 1, true);
  EXPECT_EQ(Super::allocate(kMiB << 6), nullptr);
  while (void* block = Super::allocate(kSize)) blocks.push_back(block);
  EXPECT_EQ(Super::allocate(kSize), nullptr);
  fake_os::fail_none();
  const Bin& bin = kBinTable[small_bin(kSize)];
  EXPECT_EQ(blocks.size(), global(kSize).folios.chunks * bin.folios * bin.per_folio)
      << "all blocks of the chunks there are";
  for (int i = 0; i < 1000; i++) blocks.push_back(Super::allocate(kSize));
  EXPECT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0);
  EXPECT_EQ(global(kSize).folios.in_use, blocks.size() + cached(kSize));
  give(blocks);
  EXPECT_EQ(global(kSize).folios.in_use, cached(kSize));
  count_cases(blocks.size());
}

TEST(SuperThreads, OneThatFreesAtItsEndLeavesNoCache) {
  expect_nothing_left_by_late_frees([] { return Super::allocate(300); }, Super::deallocate,
                                    [] { return counter("thread_caches"); });
}

// The child takes over the lists of a thread that does not exist in it.
TEST(SuperFork, AThreadOfTheChildHasTheListsOfOneThatWasNotCopied) {
  constexpr size_t kSize = 7000;
  std::mutex mutex;
  std::condition_variable changed;
  void* freed_last = nullptr;
  bool over = false;
  std::thread other([&] {
    give(take(2, kSize));
    void* block = Super::allocate(kSize);
    Super::deallocate(block);
    std::unique_lock lock(mutex);
    freed_last = block;
    changed.notify_all();
    changed.wait(lock, [&] { return over; });
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return freed_last != nullptr; });
  }
  const int status = run_in_child([&] {
    void* got = nullptr;
    std::thread([&] { got = Super::allocate(kSize); }).join();
    return got == freed_last ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  {
    const std::lock_guard lock(mutex);
    over = true;
  }
  changed.notify_all();
  other.join();
  count_cases();
}

}  // namespace
}  // namespace near_test

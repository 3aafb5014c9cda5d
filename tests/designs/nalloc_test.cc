// What the page on nalloc claims, tested on its parts: where blocks come from and go back to, which
// thread gets a slab whose blocks are all wayward, the cost of a popall, and no waiting for locks.
// Invariant: each case of nalloc.cmake runs in a process of its own, so counters start at zero.
// Thread-safety: only the thread that runs the test uses it.
#include "designs/nalloc/nalloc.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "designs/counters.h"
#include "designs/late_frees.h"
#include "designs/nalloc/heaps.h"
#include "designs/zeroed.h"
#include "support/cases.h"
#include "support/fake_os.h"

namespace near_test {
namespace {

using near::design::Block;
using near::design::nalloc::current;
using near::design::nalloc::kPage;
using near::design::nalloc::Nalloc;
using near::design::nalloc::page_of;
using near::design::nalloc::pages;
using near::design::nalloc::settings;
using near::design::nalloc::Slab;
using near::design::nalloc::WaywardStack;

using Blocks = std::vector<void*>;

Blocks take(size_t count, size_t size) {
  Blocks blocks(count);
  for (void*& block : blocks) block = Nalloc::allocate(size);
  return blocks;
}
void give(const Blocks& blocks) {
  for (void* block : blocks) Nalloc::deallocate(block);
}

template <typename Function>
void in_another_thread(Function function) {
  std::thread(function).join();
}

Slab* slab_of(void* block) { return reinterpret_cast<Slab*>(page_of(block)); }
size_t capacity_of(size_t size) { return (kPage - settings.header) / size; }

// An atomic word that counts the operations on it.
struct CountingWord {
  CountingWord(uint64_t value) : word(value) {}
  uint64_t load(std::memory_order order) const { return word.load(order); }
  uint64_t exchange(uint64_t value, std::memory_order order) {
    changes++;
    return word.exchange(value, order);
  }
  bool compare_exchange_weak(uint64_t& expected, uint64_t wanted, std::memory_order order,
                             std::memory_order failed) {
    changes++;
    return word.compare_exchange_strong(expected, wanted, order, failed);
  }
  std::atomic<uint64_t> word;
  inline static unsigned changes = 0;
};

TEST(NallocWayward, PopallIsOneExchangeHoweverManyBlocks) {
  alignas(kPage) static char page[kPage];
  const Slab::Names names{page};
  for (const uint32_t count : {1U, 2U, 250U}) {
    WaywardStack<Block, CountingWord> stack;
    for (uint32_t i = 0; i < count; i++) {
      EXPECT_EQ(stack.push(names, names.at(4 + i)).size, i + 1);
    }
    CountingWord::changes = 0;
    const auto chain = stack.popall(names);
    EXPECT_EQ(CountingWord::changes, 1U);
    EXPECT_EQ(chain.size, count);
    uint32_t linked = 0;
    for (const Block* block = chain.first; block != nullptr; block = block->next) linked++;
    EXPECT_EQ(linked, count);
    EXPECT_EQ(stack.popall(names).first, nullptr);
    EXPECT_EQ(CountingWord::changes, 1U) << "a look at an empty stack changes nothing";
  }
  count_cases(3);
}

TEST(NallocWayward, AnExhaustedSlabGetsItsWaywardBlocksBack) {
  Blocks blocks = take(capacity_of(64) - 1, 64);
  Slab* slab = slab_of(blocks[0]);
  const Blocks wayward(blocks.end() - 7, blocks.end());
  in_another_thread([&] { give(wayward); });
  EXPECT_EQ(slab->wayward().size(), 7U);
  EXPECT_EQ(slab_of(Nalloc::allocate(64)), slab);
  EXPECT_EQ(counter("popalls"), 1U);
  EXPECT_EQ(counter("blocks_moved"), 7U);
  EXPECT_EQ(slab->free, 7U);
  for (int i = 0; i < 7; i++) EXPECT_EQ(slab_of(Nalloc::allocate(64)), slab);
  EXPECT_EQ(counter("slabs_given_up"), 1U);
  EXPECT_NE(slab_of(Nalloc::allocate(64)), slab);
  count_cases(2);
}

TEST(NallocWayward, AFreeOfTheHostRegainsASlabThatWasGivenUp) {
  const Blocks blocks = take(capacity_of(64), 64);
  EXPECT_EQ(counter("slabs_given_up"), 1U);
  in_another_thread([&] { give({blocks[3], blocks[4]}); });
  Nalloc::deallocate(blocks[7]);
  EXPECT_EQ(counter("slabs_regained"), 1U);
  EXPECT_EQ(Nalloc::allocate(64), blocks[7]);
  EXPECT_EQ(slab_of(Nalloc::allocate(64)), slab_of(blocks[7])) << "and with it its wayward blocks";
  EXPECT_EQ(counter("slabs_taken"), 1U);
  count_cases();
}

TEST(NallocSteal, WhoBringsTheLastBlockHasTheSlab) {
  const Blocks blocks = take(capacity_of(64), 64);
  Slab* slab = slab_of(blocks[0]);
  in_another_thread([&] {
    give(take(1, 32));
    const near::design::nalloc::Heap* mine = current;
    const size_t clean = pages.clean();
    for (size_t i = 0; i + 1 < blocks.size(); i++) Nalloc::deallocate(blocks[i]);
    EXPECT_NE(slab->host, mine) << "one block is still somebody's";
    Nalloc::deallocate(blocks.back());
    if (settings.steal && settings.keep > 0) {
      EXPECT_EQ(slab->host, mine);
      EXPECT_EQ(counter("slabs_stolen"), 1U);
      EXPECT_EQ(slab_of(Nalloc::allocate(64)), slab);
      EXPECT_EQ(slab->free + 1, slab->capacity);
      EXPECT_EQ(slab->wayward().size(), 0U);
    } else {
      EXPECT_EQ(counter("slabs_stolen"), 0U);
      EXPECT_EQ(pages.clean(), clean + 1);
    }
  });
  count_cases();
}

TEST(NallocSteal, AThreadKeepsNoMoreThanItMay) {
  const size_t capacity = capacity_of(64);
  const Blocks blocks = take(20 * capacity, 64);
  in_another_thread([&] {
    give(take(1, 32));  // a thread that only frees has no heap, and keeps nothing
    const size_t clean = pages.clean();
    give(blocks);
    const uint64_t kept = settings.steal ? settings.keep : 0;
    EXPECT_EQ(counter("slabs_stolen"), kept);
    EXPECT_EQ(pages.clean(), clean + 20 - kept);
  });
  count_cases();
}

TEST(NallocSlab, PrivateWaywardAndLiveMakeTheCapacity) {
  std::mt19937 random(7);
  const size_t sizes[] = {16, 48, 128, 256, 1024};
  std::vector<Blocks> live(std::size(sizes));
  for (int round = 0; round < 60; round++) {
    Blocks foreign;
    for (int i = 0; i < 1500; i++) {
      const size_t k = random() % std::size(sizes);
      if (live[k].empty() || random() % 5 < 3) {
        live[k].push_back(Nalloc::allocate(sizes[k]));
        memset(live[k].back(), 0x5a, sizes[k]);
        continue;
      }
      std::swap(live[k][random() % live[k].size()], live[k].back());
      if (random() % 2 == 0) {
        Nalloc::deallocate(live[k].back());
      } else {
        foreign.push_back(live[k].back());
      }
      live[k].pop_back();
    }
    in_another_thread([&] { give(foreign); });
    std::map<Slab*, uint32_t> used;
    for (const Blocks& blocks : live) {
      for (void* block : blocks) used[slab_of(block)]++;
    }
    for (const auto& [slab, blocks] : used) {
      ASSERT_EQ(slab->free + slab->wayward().size() + blocks, slab->capacity);
    }
    ASSERT_TRUE(current->check());
  }
  count_cases(60);
}

TEST(NallocSlab, TheOrderIsThatOfTheSwitch) {
  const Blocks blocks = take(10, 64);
  for (size_t i = 1; i < blocks.size(); i++) {
    EXPECT_EQ(static_cast<char*>(blocks[i - 1]) - static_cast<char*>(blocks[i]), 64);
  }
  Nalloc::deallocate(blocks[2]);
  void* next = Nalloc::allocate(64);
  EXPECT_EQ(next == blocks[2], settings.stack_first);
  // What adjoins the contiguous section goes back into it: no link is written.
  const Slab* slab = slab_of(next);
  const char* end = slab->end;
  memset(next, 0x5a, 64);
  if (!settings.stack_first) {
    Nalloc::deallocate(next);
    EXPECT_EQ(slab->end, end + 64);
    EXPECT_EQ(*static_cast<uint32_t*>(next), 0x5a5a5a5aU);
  }
  count_cases();
}

TEST(NallocSlab, TheWaywardStackHasALineOfItsOwnIfTheSwitchSaysSo) {
  Slab* slab = slab_of(Nalloc::allocate(100));
  const auto line = [](const void* at) { return reinterpret_cast<uintptr_t>(at) / 64; };
  EXPECT_EQ(line(&slab->top) != line(&slab->wayward()), settings.wayward_apart);
  EXPECT_EQ(slab->capacity, (kPage - settings.header) / 112);
  count_cases();
}

TEST(NallocExit, TheNextThreadHasTheSlabs) {
  Blocks left;
  in_another_thread([&] {
    const Blocks blocks = take(1000, 64);
    for (size_t i = 0; i < blocks.size(); i++) {
      if (i % 2 == 0) {
        Nalloc::deallocate(blocks[i]);
      } else {
        left.push_back(blocks[i]);
      }
    }
  });
  const size_t taken = pages.taken();
  const uint64_t slabs = counter("slabs_taken");
  in_another_thread([&] {
    const Blocks blocks = take(500, 64);
    EXPECT_EQ(counter("slabs_taken"), slabs);
    EXPECT_EQ(pages.taken(), taken);
    give(blocks);
  });
  EXPECT_EQ(counter("heaps"), 1U);
  give(left);
  count_cases();
}

TEST(NallocExit, WholeSlabsBecomeCleanPagesForAnyClass) {
  in_another_thread([] { give(take(1000, 64)); });
  const size_t taken = pages.taken();
  EXPECT_GE(pages.clean(), 1000 / capacity_of(64));
  in_another_thread([&] { give(take(40, 1000)); });
  EXPECT_EQ(pages.taken(), taken);
  count_cases();
}

TEST(NallocExit, AThreadThatFreesAtItsEndLeavesNoHeap) {
  expect_nothing_left_by_late_frees([] { return Nalloc::allocate(64); }, Nalloc::deallocate,
                                    [] { return counter("heaps"); });
}

TEST(NallocLocks, SmallBlocksNeedNone) {
  give(take(1, 64));
  Nalloc::lock_for_fork();
  std::promise<void> promise;
  auto done = promise.get_future();
  Blocks shared(3000);
  std::thread thread([&] {
    for (const size_t size : {200, 2000}) {
      in_another_thread([&] { shared = take(shared.size(), size); });
      give(shared);
    }
    for (const size_t size :
         {size_t{0}, size_t{16}, size_t{100}, near::design::nalloc::kLargest, size_t{2000}}) {
      give(take(20000, size));
    }
    promise.set_value();
  });
  const bool in_time = done.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  Nalloc::unlock_after_fork(false);
  thread.join();
  EXPECT_TRUE(in_time) << "a small block waited for a lock";
  count_cases();
}

// A fork during a trim would lose the parked heaps that the trim has taken.
TEST(NallocLocks, NoTrimHasParkedHeapsInHandDuringAFork) {
  near::design::nalloc::Heap* parked = nullptr;
  void* left = nullptr;
  in_another_thread([&] {
    left = Nalloc::allocate(2000);
    parked = current;
  });
  Nalloc::deallocate(left);
  Nalloc::lock_for_fork();
  std::thread trimming([] { Nalloc::trim(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(parked->coalescing().popalls(), 0U);
  Nalloc::unlock_after_fork(false);
  trimming.join();
  EXPECT_EQ(parked->coalescing().popalls(), 1U);
  count_cases();
}

TEST(NallocRuns, ZeroedBlocksOfFreshMemoryCostNone) { expect_zeroed_blocks_to_be_fresh<Nalloc>(); }

TEST(NallocPages, MemoryGoesBackAndComesAgain) {
  give(take(5000, 1000));
  current->collect();
  const size_t clean = pages.clean();
  EXPECT_GT(clean, 1000U);
  const uint64_t before = fake_os::calls(OsCall::purge);
  fake_os::fail(OsCall::purge, 1, true);
  EXPECT_FALSE(Nalloc::trim());
  fake_os::fail_none();
  EXPECT_EQ(pages.clean(), clean) << "a page is lost where the system refuses";
  if (fake_os::calls(OsCall::purge) == before) GTEST_SKIP() << "pages of the system are larger";
  EXPECT_TRUE(Nalloc::trim());
  EXPECT_EQ(pages.clean(), 0U);
  EXPECT_EQ(pages.purged(), clean);
  EXPECT_FALSE(Nalloc::trim());
  const size_t taken = pages.taken();
  const Blocks again = take(3000, 1000);
  for (void* block : again) memset(block, 1, 1000);
  EXPECT_EQ(pages.taken(), taken);
  give(again);
  count_cases();
}

TEST(NallocPages, BeyondTheLimitCleanPagesKeepNoMemory) {
  give(take(5000, 1000));
  EXPECT_EQ(pages.clean() <= 256, settings.clean_pages == 256);
  EXPECT_EQ(pages.purged() > 0, settings.clean_pages == 256);
  count_cases();
}

TEST(NallocPages, ARefusalLosesNothing) {
  give(take(10, 64));
  fake_os::fail(OsCall::commit, 1, true);
  Blocks blocks;
  for (void* block = Nalloc::allocate(512); block != nullptr; block = Nalloc::allocate(512)) {
    blocks.push_back(block);
  }
  EXPECT_GT(blocks.size(), 100U);
  const size_t taken = pages.taken();
  EXPECT_LE(taken * kPage, pages.committed()) << "what was refused is not taken";
  give(blocks);
  EXPECT_NE(take(blocks.size(), 512).back(), nullptr);
  EXPECT_EQ(pages.taken(), taken);
  EXPECT_EQ(Nalloc::allocate(size_t{64} << 20), nullptr);
  fake_os::fail_none();
  EXPECT_NE(Nalloc::allocate(size_t{64} << 20), nullptr);
  EXPECT_NE(Nalloc::allocate(512), nullptr);
  count_cases();
}

TEST(NallocInvalidDeathTest, ASecondFreeIsSaid) {
  const Blocks blocks = take(4, 64);
  EXPECT_DEATH(give({blocks[1], blocks[1]}), "it was freed before");
  EXPECT_DEATH(give({blocks[3], blocks[3]}), "it was freed before") << "the contiguous section";
  EXPECT_DEATH(in_another_thread([&] { give({blocks[2], blocks[2]}); }), "it was freed before");
  void* middle = Nalloc::allocate(2000);
  EXPECT_DEATH(give({middle, middle}), "it ");
  EXPECT_DEATH(give({reinterpret_cast<char*>(current) + 64}), "it is not a block");
  count_cases(5);
}

}  // namespace
}  // namespace near_test

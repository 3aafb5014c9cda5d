// What the page on __nalloc claims, tested on its parts: blocks are cut and joined, each request of
// up to a page has its arena, blocks freed by others come back, also after the owner's exit.
// Invariant: each case of nalloc0.cmake runs in a process of its own, so counters start at zero.
// Thread-safety: only the thread that runs the test uses it.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "designs/nalloc/heaps.h"
#include "designs/nalloc/nalloc.h"
#include "support/cases.h"

namespace near_test {
namespace {

using near::design::nalloc::Coalescing;
using near::design::nalloc::current;
using near::design::nalloc::kPage;
using near::design::nalloc::Nalloc;
using near::design::nalloc::page_of;
using near::design::nalloc::pages;

using Blocks = std::vector<void*>;

void give(const Blocks& blocks) {
  for (void* block : blocks) Nalloc::deallocate(block);
}

TEST(Nalloc0, NeighboursAreJoinedUntilTheArenaIsWhole) {
  void* all[3];
  for (void*& block : all) block = Nalloc::allocate(1000);
  for (void* block : all) EXPECT_EQ(page_of(block), page_of(all[0]));
  EXPECT_LT(all[1], all[0]) << "the tail is the block";
  Nalloc::deallocate(all[0]);
  Nalloc::deallocate(all[2]);
  EXPECT_TRUE(Coalescing::check(all[1]));
  EXPECT_EQ(pages.clean(), 0U);
  Nalloc::deallocate(all[1]);
  EXPECT_EQ(pages.clean(), 1U);
  EXPECT_EQ(page_of(Nalloc::allocate(Coalescing::kMost)), page_of(all[0])) << "for one block";
  count_cases();
}

TEST(Nalloc0, ArenasAreSoundAfterRandomRuns) {
  std::mt19937 random(11);
  struct Live {
    unsigned char* block;
    size_t size;
  };
  std::vector<Live> live;
  for (int round = 0; round < 40; round++) {
    Blocks foreign;
    for (int i = 0; i < 1000; i++) {
      if (live.empty() || random() % 9 < 5) {
        const size_t size = random() % (random() % 4 == 0 ? Coalescing::kMost + 1 : 200);
        auto* block = static_cast<unsigned char*>(Nalloc::allocate(size));
        ASSERT_GE(Nalloc::usable_size(block), size);
        memset(block, static_cast<int>(size % 251), size);
        live.push_back({block, size});
        continue;
      }
      std::swap(live[random() % live.size()], live.back());
      const auto [block, size] = live.back();
      for (size_t at = 0; at < size; at++) ASSERT_EQ(block[at], size % 251);
      if (random() % 2 == 0) {
        Nalloc::deallocate(block);
      } else {
        foreign.push_back(block);
      }
      live.pop_back();
    }
    std::thread([&] { give(foreign); }).join();
    for (const auto& [block, size] : live) ASSERT_TRUE(Coalescing::check(block));
  }
  for (const auto& [block, size] : live) Nalloc::deallocate(block);
  current->collect();
  EXPECT_EQ(current->coalescing().in_use(), 0U);
  const size_t links = (pages.taken() + 511) / 512;
  const size_t fresh = current->fresh().end - current->fresh().next;
  EXPECT_EQ(pages.clean() + fresh + links + 1, pages.taken()) << "all pages but the heap's";
  count_cases(40);
}

TEST(Nalloc0, HolesServeRequestsOfTheirSizeAgain) {
  Blocks blocks(3000);  // three in an arena
  for (void*& block : blocks) block = Nalloc::allocate(1100);
  for (size_t i = 0; i < blocks.size(); i++) {
    if (i % 3 != 1) Nalloc::deallocate(blocks[i]);
  }
  const size_t taken = pages.taken();
  for (int i = 0; i < 2000; i++) EXPECT_NE(Nalloc::allocate(1100), nullptr);
  EXPECT_LE(pages.taken(), taken + 16);
  count_cases();
}

TEST(Nalloc0, WhatIsFreedAfterTheOwnersExitIsTheNextThreads) {
  Blocks blocks(3);
  std::thread([&] {
    for (void*& block : blocks) block = Nalloc::allocate(1000);
  }).join();
  give(blocks);
  EXPECT_EQ(pages.clean(), 0U) << "nobody has looked at the stack";
  const size_t taken = pages.taken();
  std::thread([&] {
    void* block = Nalloc::allocate(2000);
    EXPECT_EQ(page_of(block), page_of(blocks[0]));
    EXPECT_EQ(pages.taken(), taken);
    Nalloc::deallocate(block);
  }).join();
  EXPECT_EQ(pages.clean(), 1U);
  count_cases();
}

TEST(Nalloc0DeathTest, ASecondFreeIsSaid) {
  void* block = Nalloc::allocate(100);
  void* other = Nalloc::allocate(100);
  EXPECT_DEATH(give({block, block}), "it was freed before");
  EXPECT_DEATH(give({other, block, other}), "it ");
  EXPECT_DEATH(give({static_cast<char*>(block) + 1}), "it was freed before");
  // Other threads than its host free the blocks, or one such thread and then the host.
  const auto collect_after = [&](const Blocks& foreign, const Blocks& own) {
    std::thread([&] { give(foreign); }).join();
    give(own);
    current->collect();
  };
  EXPECT_DEATH(collect_after({block, block}, {}), "it was freed before");
  EXPECT_DEATH(collect_after({block, other, block}, {}), "it was freed before");
  EXPECT_DEATH(collect_after({block}, {block}), "it was freed before");
  count_cases(6);
}

}  // namespace
}  // namespace near_test

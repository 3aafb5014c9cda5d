// What the paper on Hoard says of its heaps: which superblock serves, where blocks go back to, when
// a superblock changes its heap, and how much memory that bounds.
// Thread-safety: only the thread that runs the test uses it.
#include "designs/hoard/hoard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "designs/counters.h"
#include "designs/hoard/heaps.h"
#include "designs/hoard/superblocks.h"
#include "platform/os.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using near::design::hoard::all_heaps;
using near::design::hoard::Heap;
using near::design::hoard::Hoard;
using near::design::hoard::kEighths;
using near::design::hoard::settings;
using near::design::hoard::size_classes;
using near::design::hoard::Superblock;
using near::design::hoard::superblocks;

std::vector<void*> take(size_t count, size_t size) {
  std::vector<void*> blocks(count);
  for (void*& block : blocks) block = Hoard::allocate(size);
  return blocks;
}

void give(const std::vector<void*>& blocks) {
  for (void* block : blocks) Hoard::deallocate(block);
}

template <typename Body>
void in_another_thread(const Body& body) {
  std::thread(body).join();
}

size_t capacity(size_t size) {
  return settings.superblock() / size_classes.size(size_classes.of(size));
}

bool heaps_are_sound() {
  return std::all_of(all_heaps().begin(), all_heaps().end(), [](Heap& heap) {
    const near::LockGuard guard(heap.lock());
    return heap.check();
  });
}

TEST(Hoard, EachSizeHasTheSmallestClassThatHoldsItAndClassesAreAFactorApart) {
  give(take(1, 1));
  EXPECT_EQ(size_classes.largest(), settings.superblock() / 2);
  EXPECT_EQ(size_classes.size(size_classes.count() - 1), size_classes.largest());
  for (size_t size = 0; size <= size_classes.largest(); size++) {
    const unsigned size_class = size_classes.of(size);
    EXPECT_GE(size_classes.size(size_class), size);
    const size_t below = size_class > 0 ? size_classes.size(size_class - 1) : 0;
    EXPECT_TRUE(below < size || size_class == 0) << size;
    count_cases();
  }
  for (unsigned i = 1; i < size_classes.count(); i++) {
    const size_t before = size_classes.size(i - 1);
    const size_t size = size_classes.size(i);
    EXPECT_EQ(size % 16, 0u);
    EXPECT_LE(size, std::max(before + 16, before * settings.base_percent / 100));
  }
}

// The paper's figure 2, step by step: the invariant, and every list and sum, after each call.
TEST(Hoard, TheInvariantHoldsAfterEveryMallocAndFree) {
  constexpr size_t kMost = 600;
  std::mt19937_64 random(seed());
  std::vector<void*> live;
  bool grows = true;
  for (size_t step = 0; step < std::max(scaled(20'000), size_t{20'000}); step++) {
    if (live.size() == kMost) grows = false;
    if (live.size() < 20) grows = true;
    if (random() % 16 < (grows ? 12 : 4)) {
      live.push_back(Hoard::allocate(1 + random() % 8 * random() % size_classes.largest()));
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      Hoard::deallocate(live.back());
      live.pop_back();
    }
    ASSERT_TRUE(heaps_are_sound()) << "step " << step;
    count_cases();
  }
  EXPECT_GT(counter("superblocks_to_global_heap"), 0u) << "the bound was never reached";
  EXPECT_GT(counter("superblocks_from_global_heap"), 0u);
  give(live);
}

// Threads that hand their blocks round, while superblocks move between their heaps.
TEST(Hoard, HeapsAreSoundAfterThreadsFreedEachOthersBlocks) {
  constexpr size_t kThreads = 4;
  constexpr size_t kPlaces = 16'384;
  const size_t steps = scaled(50'000);
  std::vector<near::Atomic<void*>> places(kPlaces);
  const Rise given("superblocks_to_global_heap");
  run_threads(kThreads, [&](size_t t) {
    std::mt19937_64 random(seed() + t);
    for (size_t i = 0; i < steps; i++) {
      // Half of the time the places fill up, else they become empty.
      const bool fills = i * 4 / steps % 2 == 0;
      void* block = fills ? Hoard::allocate(16 << random() % 8) : nullptr;
      if (block != nullptr) memset(block, static_cast<int>(t), 16);
      if (void* old = places[random() % kPlaces].exchange(block, near::kAcqRel)) {
        Hoard::deallocate(old);
      }
    }
  });
  for (near::Atomic<void*>& place : places) {
    if (void* block = place.load(near::kAcquire)) Hoard::deallocate(block);
  }
  EXPECT_TRUE(heaps_are_sound());
  EXPECT_GT(given(), 0u);
  EXPECT_EQ(Hoard::footprint().in_use, 0u);
  count_cases(kThreads * steps);
}

TEST(Hoard, MallocTakesTheFullestSuperblockThatHasRoom) {
  const size_t each = capacity(64);
  std::vector<void*> blocks = take(3 * each, 64);
  std::vector<Superblock*> of;
  for (void* block : blocks) of.push_back(superblocks.of(block));
  // Six eighths of the second are free, and two blocks of the first and the last.
  std::vector<void*> freed;
  size_t from_second = each * 6 / 8;
  size_t from_others[2] = {2, 2};
  for (size_t i = 0; i < blocks.size(); i++) {
    const size_t which = of[i] == of[0] ? 0 : of[i] == of[each] ? 1 : 2;
    size_t& left = which == 1 ? from_second : from_others[which / 2];
    if (left == 0) continue;
    left--;
    freed.push_back(std::exchange(blocks[i], nullptr));
  }
  give(freed);
  for (size_t i = 0; i < 4; i++) {
    blocks.push_back(Hoard::allocate(64));
    EXPECT_NE(superblocks.of(blocks.back()), of[each]) << "the emptiest of three";
    count_cases();
  }
  std::erase(blocks, nullptr);
  give(blocks);
}

TEST(Hoard, FullSuperblocksStayWhileEmptierOnesAreGiven) {
  const size_t each = capacity(64);
  std::vector<void*> blocks = take(40 * each, 64);
  std::vector<void*> kept(blocks.end() - static_cast<ptrdiff_t>(10 * each), blocks.end());
  blocks.resize(30 * each);
  const Heap* mine = superblocks.of(kept.back())->owner.load(near::kRelaxed);
  for (void* block : blocks) {
    Hoard::deallocate(block);
    for (size_t i = each; i < kept.size(); i += each) {  // the first may be shared
      ASSERT_EQ(superblocks.of(kept[i])->owner.load(near::kRelaxed), mine);
    }
    count_cases();
  }
  give(kept);
}

// A block goes back to its superblock, whichever thread frees it: no thread gets blocks on lines
// that another thread uses just because it freed them.
TEST(Hoard, ABlockGoesBackToTheHeapItCameFrom) {
  if (all_heaps().size() == 2) GTEST_SKIP() << "all threads share a heap";
  const std::vector<void*> kept = take(capacity(48) - 1, 48);
  void* block = Hoard::allocate(48);
  Superblock* superblock = superblocks.of(block);
  in_another_thread([&] {
    Hoard::deallocate(block);
    void* of_another = Hoard::allocate(48);
    EXPECT_NE(superblocks.of(of_another), superblock);
    Hoard::deallocate(of_another);
  });
  void* again = Hoard::allocate(48);
  EXPECT_EQ(again, block);
  Hoard::deallocate(again);
  give(kept);
  count_cases();
}

TEST(Hoard, ThreadsTakeTheHeapsInTurn) {
  give(take(1, 100));
  const size_t others = all_heaps().size() - 1;
  std::set<void*> owners;
  for (size_t i = 0; i < others; i++) {
    in_another_thread([&] {
      void* block = Hoard::allocate(100);
      owners.insert(superblocks.of(block)->owner.load(near::kRelaxed));
      Hoard::deallocate(block);
    });
    count_cases();
  }
  EXPECT_EQ(owners.size(), others);
}

TEST(Hoard, AnEmptySuperblockServesAnyClass) {
  const size_t largest = size_classes.largest();
  give(take(8 * capacity(largest), largest));
  const Rise fresh("superblocks_taken");
  const std::vector<void*> small = take(8 * capacity(32), 32);
  EXPECT_EQ(fresh(), 0u);
  EXPECT_GT(counter("superblocks_recycled"), 0u);
  give(small);
  count_cases();
}

TEST(Hoard, SuperblocksThatAreTooEmptyServeOtherHeaps) {
  if (all_heaps().size() == 2) GTEST_SKIP() << "all threads share a heap";
  give(take(100 * capacity(512), 512));
  EXPECT_GE(counter("superblocks_to_global_heap") + settings.slack, 100u);
  const Rise fresh("superblocks_taken");
  in_another_thread([] { give(take((96 - settings.slack) * capacity(512), 512)); });
  EXPECT_EQ(fresh(), 0u);
  count_cases();
}

TEST(Hoard, BlocksAreAlignedAndTheirSizesUsable) {
  for (size_t alignment = 32; alignment <= 128 * 1024; alignment *= 2) {
    for (const size_t size : {1, 100, 512, 3000, 40'000}) {
      auto* block = static_cast<char*>(Hoard::allocate_aligned(alignment, size));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u);
      ASSERT_GE(Hoard::usable_size(block), size);
      memset(block, 1, Hoard::usable_size(block));
      Hoard::deallocate(block);
      count_cases();
    }
  }
  EXPECT_TRUE(heaps_are_sound());
  EXPECT_EQ(counter("large_blocks"), 0u);
}

// The paper's pattern that makes other allocators grow without bound, or by the number of threads:
// each thread in turn takes what the one before it has freed. [Berger00 §3.2]
TEST(HoardMemory, MemoryStaysWithinItsBound) {
  constexpr size_t kBlocks = 20'000;
  const size_t heaps = all_heaps().size();
  const Rise taken("superblocks_taken");
  for (int round = 0; round < 20; round++) {
    std::vector<void*> blocks;
    in_another_thread([&] { blocks = take(kBlocks, 64); });
    in_another_thread([&] { give(blocks); });
    count_cases();
  }
  const size_t needed = kBlocks / capacity(64) + 1;
  EXPECT_LE(taken(),
            needed * kEighths / (kEighths - settings.empty_eighths) + heaps * settings.slack);
}

TEST(HoardMemory, EmptySuperblocksGoBackWhereTheyCan) {
  const std::vector<void*> blocks = take(2000, 1000);
  EXPECT_FALSE(Hoard::trim());
  give(blocks);
  const bool can = near::os::page_size() <= settings.superblock();
  EXPECT_EQ(Hoard::trim(), can);
  EXPECT_FALSE(Hoard::trim());
  EXPECT_TRUE(heaps_are_sound());
  const Rise taken("superblocks_taken");
  const std::vector<void*> again = take(2000, 1000);
  for (void* block : again) memset(block, 1, 1000);
  EXPECT_EQ(taken(), 0u);
  give(again);
  EXPECT_EQ(Hoard::trim(), can) << "it was used again";
  EXPECT_TRUE(heaps_are_sound());
  count_cases(2);
}

TEST(HoardMemory, ARefusalLosesNothing) {
  give(take(10, 1000));
  fake_os::fail(OsCall::any, 1, true);
  std::vector<void*> blocks;
  while (void* block = Hoard::allocate(1000)) blocks.push_back(block);
  EXPECT_GT(blocks.size(), 100u);
  EXPECT_EQ(Hoard::allocate(size_t{64} << 20), nullptr);
  give(blocks);
  EXPECT_TRUE(heaps_are_sound());
  blocks = take(blocks.size(), 1000);
  EXPECT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0);
  fake_os::fail_none();
  blocks.push_back(Hoard::allocate(1000));
  blocks.push_back(Hoard::allocate(size_t{64} << 20));
  EXPECT_NE(blocks[blocks.size() - 2], nullptr);
  EXPECT_NE(blocks.back(), nullptr);
  give(blocks);
  count_cases();
}

void expect_reported(void* block, const char* as) {
  EXPECT_DEATH(Hoard::deallocate(block), as) << block;
  count_cases();
}

TEST(HoardInvalidDeathTest, WhatIsNoBlockIsSaid) {
  constexpr const char* kNone = "it is not a block";
  const std::vector<void*> blocks = take(50, 64);
  auto* start = static_cast<char*>(blocks[5]);
  for (size_t inside = 8; inside < 64; inside += 8) expect_reported(start + inside, kNone);
  // Behind the last whole block of a superblock, among descriptions, and in memory never taken.
  const std::vector<void*> odd = take(1, 3000);
  const Superblock* superblock = superblocks.of(odd[0]);
  expect_reported(superblock->start() + superblock->capacity * superblock->size, kNone);
  expect_reported(const_cast<Superblock*>(superblock), kNone);
  expect_reported(
      reinterpret_cast<char*>(superblocks.arena().start()) + superblocks.arena().committed(),
      kNone);
  give(blocks);
  give(odd);
}

TEST(HoardInvalidDeathTest, ASecondFreeIsSaid) {
  const std::vector<void*> blocks = take(3, 1000);
  give({blocks[1]});
  expect_reported(blocks[1], "it was freed before");
  give({blocks[0], blocks[2]});
  for (void* block : blocks) expect_reported(block, "it was freed before");
}

}  // namespace
}  // namespace near_test

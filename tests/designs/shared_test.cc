// What designs share: the arena, free runs of pages, large blocks, lists of blocks and of heaps.
// Thread-safety: only the thread that runs the test uses it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "base/bits.h"
#include "designs/shared/arena.h"
#include "designs/shared/block_list.h"
#include "designs/shared/free_runs.h"
#include "designs/shared/heap_list.h"
#include "designs/shared/mapped_blocks.h"
#include "designs/shared/page_runs.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using near::kKiB;
using near::kMiB;
using near::design::Arena;
using near::design::Block;
using near::design::BlockList;
using near::design::FreeRuns;
using near::design::HeapLinks;
using near::design::HeapList;
using near::design::MappedBlocks;
using near::design::PageRuns;

constexpr size_t kPage = FreeRuns::kPage;
constexpr size_t kStep = 64 * kKiB;

TEST(Arena, GivesEachByteOnceToAnyNumberOfThreads) {
  constexpr size_t kThreads = 4;
  const size_t each = scaled(1000);
  Arena arena;
  ASSERT_TRUE(arena.reserve(kThreads * each * kPage + kStep, kStep, kStep, kStep));
  std::vector<std::vector<char*>> taken(kThreads);
  run_threads(kThreads, [&](size_t t) {
    for (size_t i = 0; i < each; i++) {
      taken[t].push_back(static_cast<char*>(arena.take(kPage)));
      memset(taken[t].back(), 1, kPage);  // readable and writable
    }
  });
  std::vector<char*> all;
  for (const std::vector<char*>& mine : taken) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); i++) {
    ASSERT_EQ(all[i], reinterpret_cast<char*>(arena.start()) + i * kPage);
  }
  EXPECT_EQ(arena.taken(), all.size() * kPage);
  EXPECT_LE(arena.taken(), arena.committed());
  count_cases(all.size());
}

TEST(Arena, ARefusalTakesNothing) {
  Arena arena;
  ASSERT_TRUE(arena.reserve(kMiB, kMiB, kStep, kStep));
  while (arena.taken() < 2 * kStep) ASSERT_NE(arena.take(kPage), nullptr);
  fake_os::fail(OsCall::commit, 1, true);
  EXPECT_EQ(arena.take(kPage), nullptr);
  EXPECT_EQ(arena.taken(), 2 * kStep);
  EXPECT_EQ(arena.committed(), 2 * kStep);
  fake_os::fail_none();
  EXPECT_EQ(arena.take(kPage), reinterpret_cast<char*>(arena.start()) + 2 * kStep);
  EXPECT_EQ(arena.take(kMiB), nullptr) << "it is at its end";
  EXPECT_EQ(arena.taken(), 2 * kStep + kPage);
  count_cases(3);
}

// Free runs by definition: first fit; the tail is handed out; neighbours are joined.
class PlainRuns {
 public:
  char* take(size_t pages) {
    const auto long_enough = [&](const auto& run) { return run.second >= pages; };
    const auto run = std::find_if(runs_.begin(), runs_.end(), long_enough);
    if (run == runs_.end()) return nullptr;
    run->second -= pages;
    char* taken = end(run);
    if (run->second == 0) runs_.erase(run);
    return taken;
  }

  void put(char* start, size_t pages) {
    auto after = runs_.emplace(start, pages).first;
    auto run = after++;
    if (after != runs_.end() && end(run) == after->first) {
      run->second += after->second;
      runs_.erase(after);
    }
    if (run == runs_.begin()) return;
    const auto before = std::prev(run);
    if (end(before) != run->first) return;
    before->second += run->second;
    runs_.erase(run);
  }

  size_t count() const { return runs_.size(); }

 private:
  using Runs = std::map<char*, size_t>;
  static char* end(Runs::const_iterator run) { return run->first + run->second * kPage; }

  Runs runs_;
};

TEST(FreeRuns, AreTakenAndJoinedAsAListWouldDoIt) {
  constexpr size_t kPages = 4096;
  Arena arena;
  ASSERT_TRUE(arena.reserve(kPages * kPage, kStep, kStep, kStep));
  FreeRuns runs;
  PlainRuns plain;
  char* all = static_cast<char*>(arena.take(kPages * kPage));
  runs.put(all, kPages);
  plain.put(all, kPages);
  std::mt19937_64 random(seed());
  std::vector<std::pair<char*, size_t>> live;
  size_t most = 0;
  for (size_t step = 0; step < scaled(200'000); step++) {
    if (live.empty() || random() % 16 < (step / 4000 % 2 == 0 ? 12 : 4)) {
      const size_t pages = 1 + random() % (random() % 8 == 0 ? 64 : 4);
      char* start = runs.take(pages);
      ASSERT_EQ(start, plain.take(pages)) << "step " << step;
      if (start != nullptr) live.emplace_back(start, pages);
    } else {
      std::swap(live[random() % live.size()], live.back());
      runs.put(live.back().first, live.back().second);
      plain.put(live.back().first, live.back().second);
      live.pop_back();
    }
    most = std::max(most, plain.count());
    count_cases();
  }
  EXPECT_GT(most, 100u) << "many runs at a time";
  for (const auto& [start, pages] : live) runs.put(start, pages);
  EXPECT_EQ(runs.take(kPages), all);
  EXPECT_EQ(runs.take(1), nullptr);
}

// Blocks of one size make runs at equal distances. The tree must not follow any distance: ranks
// that are multiples of the golden ratio grow steadily along distances of Fibonacci's numbers.
TEST(FreeRuns, FewAreLookedAtHoweverManyThereAreAndHoweverFarApart) {
  constexpr size_t kRuns = 1000;
  for (const size_t apart : {3, 8, 34, 89, 144}) {
    Arena arena;
    ASSERT_TRUE(arena.reserve(apart * kRuns * kPage, kStep, kStep, kStep));
    char* all = static_cast<char*>(arena.take(apart * kRuns * kPage));
    FreeRuns runs;
    for (size_t i = 0; i < kRuns; i++) runs.put(all + apart * i * kPage, 1);
    const size_t before = runs.walked();
    for (size_t i = 0; i < kRuns; i++) {
      char* run = all + apart * (i * 1597 % kRuns) * kPage;
      EXPECT_EQ(runs.take(2), nullptr);
      runs.put(run + kPage, 1);  // joined with the run before it
      EXPECT_EQ(runs.take(2), run);
      runs.put(run, 1);
      count_cases();
    }
    EXPECT_LT(runs.walked() - before, kRuns * 200) << "runs " << apart << " pages apart";
  }
}

TEST(PageRuns, AZeroedBlockIsZeroAlsoWhereSomebodyHadTheMemory) {
  Arena arena;
  ASSERT_TRUE(arena.reserve(16 * kMiB, kMiB, kStep, kStep));
  PageRuns runs(arena);
  for (const size_t alignment : {size_t{1}, 4 * kPage}) {
    auto* block = static_cast<char*>(runs.take(kMiB, alignment));
    memset(block, 1, kMiB);
    EXPECT_GE(runs.usable(block), kMiB);
    EXPECT_TRUE(runs.put(block));
    EXPECT_FALSE(runs.put(block)) << "it is free";
    auto* again = static_cast<char*>(runs.take_zeroed(kMiB, alignment));
    EXPECT_EQ(again, block);
    EXPECT_EQ(std::count(again, again + kMiB, 0), static_cast<ptrdiff_t>(kMiB));
    EXPECT_TRUE(runs.put(again));
    count_cases();
  }
  EXPECT_EQ(runs.totals().blocks, 0u);
  EXPECT_EQ(runs.totals().in_use, 0u);
  EXPECT_TRUE(runs.trim());
  EXPECT_FALSE(runs.trim()) << "it was given back";
}

TEST(MappedBlocks, AreZeroAlignedAndGoneWhenTheyArePut) {
  static constinit MappedBlocks blocks;
  for (const size_t alignment : {size_t{1}, size_t{64}, kPage, 64 * kPage}) {
    for (const size_t size : {size_t{0}, size_t{1}, kPage, kMiB}) {
      auto* block = static_cast<char*>(blocks.take(size, alignment));
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % std::max(alignment, size_t{64}), 0u);
      const size_t usable = blocks.usable(block);
      EXPECT_GE(usable, std::max(size, size_t{1}));
      EXPECT_EQ(std::count(block, block + usable, 0), static_cast<ptrdiff_t>(usable));
      memset(block, 1, usable);
      EXPECT_EQ(blocks.usable(block + 64), 0u);
      EXPECT_FALSE(blocks.put(block + 64));
      EXPECT_EQ(blocks.totals().blocks, 1u);
      EXPECT_TRUE(blocks.put(block));
      EXPECT_FALSE(blocks.put(block)) << "it is gone";
      count_cases();
    }
  }
  EXPECT_EQ(blocks.totals().bytes, 0u);
  EXPECT_EQ(blocks.take(PTRDIFF_MAX, 1), nullptr);
  for (const OsCall call : {OsCall::map, OsCall::reserve, OsCall::commit}) {
    fake_os::fail(call, 1, true);
    EXPECT_EQ(blocks.take(kMiB, call == OsCall::map ? 1 : 64 * kPage), nullptr);
    fake_os::fail_none();
  }
  EXPECT_EQ(blocks.totals().blocks, 0u);
}

// The numbers of the blocks, by following the links; -1 if `count` or `tail` disagrees.
std::vector<ptrdiff_t> numbers(const BlockList& list, const Block* first) {
  std::vector<ptrdiff_t> found;
  const Block* last = nullptr;
  for (const Block* block = list.head; block != nullptr; last = block, block = block->next) {
    found.push_back(block - first);
  }
  if (found.size() != list.count || last != list.tail) found.push_back(-1);
  return found;
}

TEST(BlockList, MovesBlocksAtBothEndsAndWhole) {
  using Numbers = std::vector<ptrdiff_t>;
  Block blocks[8] = {};
  BlockList list = BlockList::of(&blocks[0]);
  list.push(&blocks[1]);
  list.add_last(&blocks[2]);
  EXPECT_EQ(numbers(list, blocks), (Numbers{1, 0, 2}));
  BlockList other;
  other.add_last(&blocks[3]);
  other.push(&blocks[4]);
  list.join(other);
  EXPECT_EQ(numbers(list, blocks), (Numbers{4, 3, 1, 0, 2}));
  list.append(BlockList::of(&blocks[5]));
  EXPECT_EQ(numbers(list, blocks), (Numbers{4, 3, 1, 0, 2, 5}));
  const BlockList front = list.split(2);
  EXPECT_EQ(numbers(front, blocks), (Numbers{4, 3}));
  EXPECT_EQ(numbers(list, blocks), (Numbers{1, 0, 2, 5}));
  for (const ptrdiff_t number : {1, 0, 2, 5}) EXPECT_EQ(list.pop(), &blocks[number]);
  EXPECT_EQ(numbers(list, blocks), Numbers());
  list.append(front);
  EXPECT_EQ(numbers(list, blocks), (Numbers{4, 3}));
  BlockList empty;
  empty.join(front);
  EXPECT_EQ(numbers(empty, blocks), (Numbers{4, 3}));
  count_cases(8);
}

struct SomeHeap {
  HeapLinks<SomeHeap> links;
};

TEST(HeapList, AHeapIsOneThreadsAndAnIdleOneServesTheNext) {
  constexpr size_t kThreads = 4;
  static constinit HeapList<SomeHeap> list{near::design::kInnerRank};
  static SomeHeap room[kThreads];
  size_t made = 0;
  const auto make = [&] { return made < kThreads ? &room[made++] : nullptr; };
  const size_t rounds = scaled(10'000);
  std::vector<near::Atomic<int>> users(kThreads);
  run_threads(kThreads, [&](size_t) {
    for (size_t i = 0; i < rounds; i++) {
      SomeHeap* heap = list.take(make);
      ASSERT_NE(heap, nullptr);
      near::Atomic<int>& user = users[static_cast<size_t>(heap - room)];
      EXPECT_EQ(user.fetch_add(1, near::kRelaxed), 0);
      user.fetch_sub(1, near::kRelaxed);
      list.give(heap);
    }
  });
  EXPECT_EQ(list.made(), made);
  SomeHeap* last = list.take(make);
  list.give(last);
  EXPECT_EQ(list.take(make), last) << "the one given back last";
  count_cases(kThreads * rounds);
}

TEST(HeapList, AfterAForkTheOthersHeapsAreIdleAndOrphans) {
  HeapList<SomeHeap> list{near::design::kInnerRank};
  SomeHeap room[4];
  size_t made = 0;
  const auto make = [&] { return made < 4 ? &room[made++] : nullptr; };
  for (size_t i = 0; i < 4; i++) EXPECT_EQ(list.take(make), &room[i]);
  EXPECT_EQ(list.take(make), nullptr) << "memory is refused";
  list.give(&room[3]);
  list.adopt_others(&room[1]);
  size_t all = 0;
  size_t orphans = 0;
  list.for_each([&](const SomeHeap& heap) {
    all++;
    orphans += heap.links.is_orphan ? 1 : 0;
  });
  EXPECT_EQ(all, 4u);
  EXPECT_EQ(orphans, 2u) << "of four, one is the child's and one was idle";
  EXPECT_FALSE(room[1].links.is_orphan || room[3].links.is_orphan);
  for (int i = 0; i < 3; i++) EXPECT_NE(list.take(make), &room[1]);
  EXPECT_EQ(list.take(make), nullptr);
  count_cases(3);
}

}  // namespace
}  // namespace near_test

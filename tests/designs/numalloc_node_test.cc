// NUMAlloc on nodes that tests make up: processor n belongs to node n (NEARMALLOC_TOPOLOGY), and a
// thread runs on the processor that the test says.

#include <cstdlib>
#include <memory>
#include <random>
#include <string_view>

#include "designs/numalloc/node_heap.h"
#include "designs/numalloc_room.h"
#include "support/fake_os.h"
#include "support/forked.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using near::kKiB;
using near::kMiB;
using near::design::numalloc::current_heap;
using near::design::numalloc::node_heaps;
using near::design::numalloc::NodeHeap;
using near::design::numalloc::settings;
using near::design::numalloc::ThreadHeap;

class NumallocNodes : public testing::Test {
 protected:
  void SetUp() override {
    set_cpu(0);
    near_free(near_malloc(1));
    ASSERT_GE(topology().count, 2u) << "NEARMALLOC_TOPOLOGY is missing";
    ASSERT_EQ(regions.count, topology().count);
  }
  void TearDown() override { set_cpu(0); }
  unsigned last() const { return topology().count - 1; }
};
using NumallocSwitch = NumallocNodes;

// Walks every list of every thread and every class, and counts objects of other nodes.
size_t strangers() {
  size_t found = 0;
  for (unsigned n = 0; n < regions.count; n++) {
    node_heaps[n]->heaps.for_each([&](ThreadHeap& heap) {
      for (auto& list : heap.lists) {
        const auto all = list.take_all();
        for (auto* object = all.head; object != nullptr; object = object->next) {
          found += node_of(object) != n ? 1 : 0;
        }
        list.fill(all);
      }
    });
    NodeHeap& node = *node_heaps[n];
    for (unsigned c = 1; c < kClasses; c++) {
      std::vector<near::design::numalloc::Sublist> lists;
      while (true) {
        lists.push_back(node.small[c].fetch(node, c, false));
        if (lists.back().count == 0) break;
        for (auto* object = lists.back().head; object != nullptr; object = object->next) {
          found += node_of(object) != n ? 1 : 0;
        }
      }
      lists.pop_back();
      for (const auto& list : lists) node.small[c].donate(node, list);
    }
  }
  return found;
}

TEST_F(NumallocNodes, ANodeIsAnAddressDividedByTheSizeOfARegion) {
  for (unsigned n = 0; n < regions.count; n++) {
    on_cpu(n, [&] {
      for (unsigned c = 1; c < kClasses; c++) {
        const auto blocks = allocate_many(kClassSizes[c]);
        EXPECT_EQ(count_on(blocks, n), blocks.size()) << kClassSizes[c];
        free_all(blocks);
        count_cases();
      }
      for (const size_t size : {kSmallLimit + 1, 3 * kMiB}) {
        void* block = near_malloc(size);
        EXPECT_EQ(node_of(block), n);
        near_free(block);
        void* aligned = near_aligned_alloc(kMiB, size);
        EXPECT_EQ(node_of(aligned), n);
        near_free(aligned);
      }
      EXPECT_EQ(node_of(reinterpret_cast<void*>(regions.small_start(n))), n);
    });
  }
}

TEST_F(NumallocNodes, WhatIsFreedElsewhereGoesHome) {
  for (const size_t size : {size_t{64}, size_t{1000}, size_t{9000}, 200 * kKiB}) {
    Worker owner(0);
    Worker freer(last());
    std::vector<void*> blocks;
    owner([&] { blocks = allocate_many(size); });
    const uint64_t before = counter("remote moves");
    freer([&] {
      free_all(blocks);
      const auto mine = allocate_many(size);
      EXPECT_EQ(count_on(mine, last()), mine.size());
      free_all(mine);
    });
    EXPECT_EQ(counter("remote moves"), before + blocks.size());
    const uint64_t carved = counter("carved objects");
    owner([&] {
      const auto again = allocate_many(size);
      EXPECT_EQ(count_on(again, 0), again.size());
      // None of them is new: the objects that went home are found there.
      EXPECT_LE(counter("carved objects"), carved + 1);
      free_all(again);
    });
    count_cases(2);
  }
  EXPECT_EQ(strangers(), 0u);
}

TEST_F(NumallocNodes, BigObjectsGoHome) {
  void* block = nullptr;
  on_cpu(last(), [&] { block = near_malloc(5 * kMiB); });
  EXPECT_EQ(node_of(block), last());
  const uint64_t before = counter("big remote moves");
  near_free(block);
  EXPECT_EQ(counter("big remote moves"), before + 1);
  on_cpu(last(), [&] {
    const size_t committed = node_heaps[last()]->big.committed();
    void* again = near_malloc(5 * kMiB);
    EXPECT_EQ(node_of(again), last());
    EXPECT_EQ(node_heaps[last()]->big.committed(), committed) << "it is not used again";
    near_free(again);
  });
  count_cases(2);
}

// The paper's claim in a case that the paper excludes: the system moves threads all the time.
TEST_F(NumallocNodes, EveryFreedObjectEndsOnAListOfItsOriginUnderMigration) {
  constexpr unsigned kThreads = 4;
  const size_t steps = scaled(200'000);
  const uint64_t moved = counter("threads that moved");
  const uint64_t made = counter("heaps made");
  std::mutex lock;
  std::vector<void*> shared(500);
  std::atomic<size_t> misplaced{0};
  run_threads(kThreads, [&](unsigned t) {
    std::mt19937_64 random(t + seed());
    for (size_t i = 0; i < steps / kThreads; i++) {
      if (random() % 256 == 0) set_cpu(static_cast<unsigned>(random() % regions.count));
      const size_t size = random() % 64 == 0 ? random() % (2 * kMiB) : random() % 2000;
      void* block = near_malloc(size);
      // A thread stays where its heap is until it needs more.
      if (node_of(block) != current_heap->node->node) misplaced++;
      memset(block, 1, std::min<size_t>(size, 64));
      {
        const std::lock_guard guard(lock);
        std::swap(block, shared[random() % shared.size()]);
      }
      near_free(block);
    }
  });
  free_all(shared);
  EXPECT_EQ(misplaced.load(), 0u);
  EXPECT_EQ(strangers(), 0u);
  EXPECT_GT(counter("threads that moved"), moved);
  // A heap that a thread leaves serves the next one there.
  EXPECT_LE(counter("heaps made"), made + kThreads * regions.count);
  EXPECT_GT(counter("remote moves"), 0u);
  for (unsigned n = 0; n < regions.count; n++) EXPECT_TRUE(node_heaps[n]->big.check());
  count_cases();
}

TEST_F(NumallocNodes, MetadataLieWithTheirNode) {
  for (unsigned n = 0; n < regions.count; n++) {
    on_cpu(n, [&] {
      free_all(allocate_many(64));
      const auto place = near::design::numalloc::metadata_of(n);
      const auto inside = [&](const void* part) {
        return reinterpret_cast<uintptr_t>(part) - place.start < place.size;
      };
      EXPECT_TRUE(inside(current_heap));
      EXPECT_TRUE(inside(node_heaps[n]));
      count_cases();
    });
  }
}

// The child takes over, with its objects, the heap of a thread that lives only in the parent.
TEST_F(NumallocNodes, AForkedChildLosesNoObjectsOfOtherThreads) {
  Worker other(1);
  other([] { free_all(allocate_many(64, 2048)); });
  const int status = run_in_child([] {
    const size_t before = near_mallinfo2().uordblks;
    set_cpu(1);
    // A class that the child has not used yet makes it look for its node.
    near_free(near_malloc(200));
    for (int i = 0; i < 4; i++) {
      void* blocks[300];
      for (void*& block : blocks) block = near_malloc(64);
      for (void* block : blocks) near_free(block);
    }
    const bool moved = current_heap->node->node == 1;
    return !moved ? 1 : near_mallinfo2().uordblks != before ? 2 : 0;
  });
  EXPECT_EQ(status, 0);
  count_cases();
}

// A thread on a node that has no memory for its heap keeps its present heap.
TEST_F(NumallocNodes, ANodeWithoutMetadataMovesNobodyBackAndForth) {
  constexpr size_t kSizes[] = {24, 40, 56, 72, 88};
  const auto use_all = [&] {
    for (const size_t size : kSizes) free_all(allocate_many(size));
  };
  Worker worker(0);
  worker([] { near_free(near_malloc(1)); });
  on_cpu(0, use_all);  // its heap is idle now
  NodeHeap& full = *node_heaps[last()];
  const auto make_none = []() -> ThreadHeap* { return nullptr; };
  std::vector<ThreadHeap*> idle;
  while (ThreadHeap* heap = full.heaps.take(make_none)) idle.push_back(heap);
  fake_os::fail(OsCall::commit, 1, true);
  while (full.metadata.take(64) != nullptr) {
  }
  worker([&] {
    set_cpu(last());
    near_free(near_malloc(24));  // the nearest node that has memory may be another one
    const ThreadHeap* heap = current_heap;
    const uint64_t moved = counter("threads that moved");
    for (const size_t size : kSizes) near_free(near_malloc(size));
    EXPECT_EQ(counter("threads that moved"), moved);
    EXPECT_EQ(current_heap, heap);
  });
  fake_os::fail_none();
  for (ThreadHeap* heap : idle) full.heaps.give(heap);
  count_cases();
}

TEST_F(NumallocNodes, AnAddressInsideAnObjectOfAnotherNodeIsReported) {
  char* small = nullptr;
  char* odd = nullptr;
  char* large = nullptr;
  Worker worker(1);
  worker([&] {
    small = static_cast<char*>(near_malloc(64));
    odd = static_cast<char*>(near_malloc(96));
    large = static_cast<char*>(near_malloc(64 * kKiB));
  });
  EXPECT_DEATH(near_free(small + 16), "no object starts there");
  EXPECT_DEATH(near_free(odd + 48), "no object starts there");
  EXPECT_DEATH(near_free(large + 4096), "no object starts there");
  // What is left of a bag behind its last object.
  auto bag = reinterpret_cast<uintptr_t>(odd) & ~(near::design::numalloc::kBagSize - 1);
  EXPECT_DEATH(near_free(reinterpret_cast<void*>(bag + 341 * 96)), "no object starts there");
  free_all({small, odd, large});
  count_cases(4);
}

TEST_F(NumallocNodes, ANodeWithoutMemoryBorrowsAndWhatItBorrowedGoesHome) {
  Worker worker(last());
  worker([&] {
    free_all(allocate_many(24));
    on_cpu(0, [] { free_all(allocate_many(24)); });
    fake_os::fail(OsCall::commit, 1, true);
    std::vector<void*> blocks;
    const uint64_t before = counter("borrowed objects");
    while (counter("borrowed objects") < before + 10) {
      void* block = near_malloc(300 * kKiB);
      if (block == nullptr) break;
      blocks.push_back(block);
    }
    fake_os::fail_none();
    EXPECT_GE(counter("borrowed objects"), before + 1);
    EXPECT_LT(count_on(blocks, last()), blocks.size());
    free_all(blocks);
  });
  EXPECT_EQ(strangers(), 0u);
  count_cases();
}

// --- each switch changes what it is for ----------------------------------------------------------

// True if the test was started with this setting.
bool chosen(std::string_view setting) {
  const char* text = std::getenv("NEARMALLOC_DESIGN_OPTIONS");
  return text != nullptr && setting == text;
}

TEST_F(NumallocSwitch, OriginAware) {
  std::vector<void*> blocks;
  on_cpu(1, [&] { blocks = allocate_many(64); });
  const uint64_t before = counter("remote moves");
  free_all(blocks);
  EXPECT_EQ(counter("remote moves"), before + ((!chosen("origin_aware=off")) ? blocks.size() : 0));
  const auto again = allocate_many(64);
  // The defect that the paper names: memory of another node is used again here.
  EXPECT_EQ(count_on(again, 0) == again.size(), (!chosen("origin_aware=off")));
  free_all(again);
  count_cases();
}

TEST_F(NumallocSwitch, HugePages) {
  const int wanted = chosen("thp=off") ? 0 : 1;
  for (unsigned n = 0; n < regions.count; n++) {
    const auto advice = [](uintptr_t at) {
      return fake_os::huge_page_advice(reinterpret_cast<void*>(at));
    };
    EXPECT_EQ(advice(regions.small_start(n)), 0);
    EXPECT_EQ(advice(regions.small_start(n) + 2 * kMiB), wanted);
    EXPECT_EQ(advice(regions.big_start(n) - 1), wanted);
    EXPECT_EQ(advice(regions.big_start(n)), wanted == 1 ? -1 : 0) << "left to the system";
    EXPECT_EQ(fake_os::huge_page_advice(node_heaps[n]), 0);
  }
  const uint64_t advice = fake_os::calls(OsCall::advise);
  const auto blocks = allocate_many(4096, 8 * kMiB);
  EXPECT_EQ(counter("huge pages advised") > 0, !chosen("thp=off"));
  EXPECT_EQ(fake_os::calls(OsCall::advise), advice);
  free_all(blocks);
  count_cases();
}

TEST_F(NumallocSwitch, Sharing) {
  constexpr unsigned kThreads = 6;
  const auto committed = [] { return node_heaps[0]->small_half.used(); };
  near_free(near_malloc(64));
  const size_t before = committed();
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<void*> blocks(kThreads);
  for (unsigned t = 0; t < kThreads; t++) {
    workers.push_back(std::make_unique<Worker>(0));
    (*workers[t])([&] { blocks[t] = near_malloc(160); });
  }
  if (!chosen("sharing=per_thread")) {
    EXPECT_EQ(counter("private huge pages"), 0u);
    EXPECT_LE(committed(), before + (kThreads + 1) * 32 * kKiB);
  } else {
    EXPECT_GE(counter("private huge pages"), kThreads);
    EXPECT_GE(committed(), before + (kThreads - 1) * 2 * kMiB);
  }
  for (unsigned t = 0; t < kThreads; t++) {
    (*workers[t])([&] { near_free(blocks[t]); });
  }
  count_cases();
}

TEST_F(NumallocSwitch, Batch) {
  const bool bag = chosen("batch=bag");
  EXPECT_EQ(settings.batch[4], bag ? 512u : 64u);
  on_cpu(0, [&] {
    const uint64_t carved = counter("carved objects");
    void* first = near_malloc(64);
    const uint64_t got = counter("carved objects") - carved;
    EXPECT_TRUE(got == 0 || got == settings.batch[4]) << got;
    const uint64_t donations = counter("donations");
    std::vector<void*> blocks{first};
    for (int i = 0; i < 4096; i++) blocks.push_back(near_malloc(64));
    free_all(blocks);
    const uint64_t gave = counter("donations") - donations;
    EXPECT_GE(gave, 4096 / settings.batch[4] - 2);
    EXPECT_LE(gave, 4096 / settings.batch[4] + 1);
  });
  count_cases();
}

}  // namespace
}  // namespace near_test

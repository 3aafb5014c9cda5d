// Blocks of a node that the caller names, and heaps bound to nodes: they lie on that node,
// whichever thread frees them and whatever is reused; what happens when a node is full.

#include <atomic>
#include <cerrno>
#include <memory>
#include <vector>

#include "heap/registry.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/forked.h"
#include "support/numa_room.h"
#include "support/parallel.h"
#include "support/pattern.h"
#include "support/threads.h"

namespace near_test {
namespace {

using near::kClasses;
using near::kMiB;
using near::kSizeClasses;
using near::topology;

class NumaPlaced : public NumaTest {
 protected:
  void TearDown() override {
    fake_os::refuse_below(0);
    for (near::Span* span : taken_) near::shard_of(*span).give(span);
    NumaTest::TearDown();
  }

  static int id(unsigned node) { return topology.kernel_id[node]; }
  static near_node_stats node_stats(unsigned node) {
    near_node_stats stats{};
    EXPECT_EQ(near_get_node_stats(node, &stats), 0);
    return stats;
  }

  // The node has nothing left, and gets no new regions.
  void exhaust(unsigned node) {
    // Windows that are added lie well below.
    fake_os::refuse_below(reinterpret_cast<uintptr_t>(near::reserved_spans) - 64 * kMiB);
    bool zero = false;
    for (const uint32_t slices : {16u, 1u}) {
      while (near::Span* span =
                 near::nodes[node].take(near::nodes[node].shard(0), {slices}, zero)) {
        taken_.push_back(span);
      }
    }
  }

  std::vector<near::Span*> taken_;
};

TEST_F(NumaPlaced, EveryBlockIsOnTheNodeThatWasNamed) {
  for (unsigned n = 0; n < topology.count; n++) {
    for (unsigned c = 0; c < kClasses; c++) {
      std::vector<void*> blocks;
      for (int i = 0; i < 50; i++) {
        blocks.push_back(near_malloc_on_node(kSizeClasses[c].size, id(n), 0));
        ASSERT_GE(near_malloc_usable_size(blocks.back()), kSizeClasses[c].size);
      }
      EXPECT_EQ(count_on(blocks, n), blocks.size()) << kSizeClasses[c].size;
      free_all(blocks);
      count_cases();
    }
    for (size_t alignment = 1; alignment <= 4 * kMiB; alignment *= 4) {
      for (const size_t size : {size_t{0}, size_t{100}, size_t{20'000}, size_t{40'000}, kMiB}) {
        void* block = near_aligned_alloc_on_node(alignment, size, id(n), NEAR_STRICT);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u) << size;
        EXPECT_GE(near_malloc_usable_size(block), size);
        EXPECT_EQ(near_node_of(block), id(n));
        near_free(block);
        count_cases();
      }
    }
  }
}

TEST_F(NumaPlaced, AndStaysThereWhoeverFreesItAndWhateverIsUsedAgain) {
  struct Live {
    void* block;
    size_t size;
    unsigned node;
  };
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned n = 0; n < topology.count; n++) workers.push_back(std::make_unique<Worker>(n));
  std::vector<Live> live;
  Random random(seed());
  for (size_t step = 0; step < scaled(20'000); step++) {
    (*workers[random.below(workers.size())])([&] {
      if (random.below(5) < 3) {
        const auto node = static_cast<unsigned>(random.below(topology.count));
        const size_t size = random.size_up_to(16);
        void* block = near_malloc_on_node(size, id(node), random.below(2) == 0 ? NEAR_STRICT : 0);
        ASSERT_EQ(near_node_of(block), id(node));
        fill(block, size, step);
        live.push_back({block, size, node});
      } else if (!live.empty()) {
        std::swap(live[random.below(live.size())], live.back());
        ASSERT_EQ(near_node_of(live.back().block), id(live.back().node));
        near_free(live.back().block);
        live.pop_back();
      }
    });
    if (HasFatalFailure()) FAIL() << "step " << step << ", seed " << seed();
    count_cases();
  }
  for (const Live& each : live) near_free(each.block);
}

TEST_F(NumaPlaced, WrongArgumentsAreRefused) {
  const auto expect_error = [](const void* block, int error) {
    EXPECT_EQ(block, nullptr);
    EXPECT_EQ(errno, error);
    errno = 0;
    count_cases();
  };
  near_heap* heap = near_heap_create_on_node(id(0), 0);
  ASSERT_NE(heap, nullptr);
  for (const int node : {-1, static_cast<int>(topology.count), 4'711}) {
    expect_error(near_malloc_on_node(10, node, 0), EINVAL);
    expect_error(near_heap_create_on_node(node, 0), EINVAL);
  }
  expect_error(near_malloc_on_node(10, id(0), 2), EINVAL);
  expect_error(near_heap_create_on_node(id(0), 6), EINVAL);
  for (const size_t alignment : {size_t{0}, size_t{24}}) {
    expect_error(near_aligned_alloc_on_node(alignment, 10, id(0), 0), EINVAL);
    expect_error(near_heap_aligned_alloc(heap, alignment, 10), EINVAL);
  }
  for (const size_t size : {SIZE_MAX, SIZE_MAX / 2, size_t{1} << 50}) {
    expect_error(near_malloc_on_node(size, id(0), 0), ENOMEM);
    expect_error(near_heap_malloc(heap, size), ENOMEM);
  }
  expect_error(near_heap_aligned_alloc(heap, size_t{1} << 63, 10), ENOMEM);
  near_heap_destroy(heap);
  near_heap_destroy(nullptr);
}

TEST_F(NumaPlaced, AFullNodeRefusesStrictRequestsAndCountsThem) {
  for (unsigned n = 0; n < topology.count; n++) near_free(near_malloc_on_node(900, id(n), 0));
  const unsigned full = other_node();
  exhaust(full);
  const uint64_t before = node_stats(full).refused;
  std::vector<void*> left;
  while (void* block = near_malloc_on_node(900, id(full), NEAR_STRICT)) left.push_back(block);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(count_on(left, full), left.size());
  EXPECT_EQ(node_stats(full).refused, before + 1);
  EXPECT_EQ(near_malloc_on_node(3 * kMiB, id(full), NEAR_STRICT), nullptr);
  EXPECT_EQ(node_stats(full).refused, before + 2);
  free_all(left);
  near::shard_of(*taken_.back()).give(taken_.back());
  taken_.pop_back();
  void* block = near_malloc_on_node(900, id(full), NEAR_STRICT);
  EXPECT_EQ(near_node_of(block), id(full)) << "there is room again";
  near_free(block);
  count_cases(4);
}

TEST_F(NumaPlaced, AFullNodeSpillsToTheNearestUnlessStrict) {
  for (unsigned n = 0; n < topology.count; n++) near_free(near_malloc_on_node(900, id(n), 0));
  const unsigned full = 0;
  const unsigned next = topology.order[full][1];
  near_heap* heap = near_heap_create_on_node(id(full), 0);
  near_heap* strict = near_heap_create_on_node(id(full), NEAR_STRICT);
  exhaust(full);
  std::vector<void*> left;
  while (void* block = near_malloc_on_node(900, id(full), NEAR_STRICT)) left.push_back(block);
  const near_node_stats before = node_stats(full);
  const near_node_stats served = node_stats(next);
  std::vector<void*> blocks = {
      near_malloc_on_node(900, id(full), 0), near_malloc_on_node(3 * kMiB, id(full), 0),
      near_heap_malloc(heap, 900), near_heap_aligned_alloc(heap, 4096, 100'000)};
  EXPECT_EQ(count_on(blocks, next), blocks.size());
  EXPECT_EQ(node_stats(full).spills_out, before.spills_out + blocks.size());
  EXPECT_EQ(node_stats(next).spills_in, served.spills_in + blocks.size());
  EXPECT_EQ(near_heap_malloc(strict, 900), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(node_stats(full).refused, before.refused + 1);
  free_all(blocks);
  free_all(left);
  near_heap_destroy(heap);
  near_heap_destroy(strict);
  spills_ = stats().spills;
  count_cases(5);
}

// A node whose region is full gets another one before a request spills.
TEST_F(NumaPlaced, AddressSpaceIsAdded) {
  exhaust(0);
  fake_os::refuse_below(0);
  for (const size_t size : {size_t{900}, size_t{30'000}, 2 * kMiB}) {
    void* block = near_malloc_on_node(size, id(0), NEAR_STRICT);
    EXPECT_EQ(near_node_of(block), id(0));
    near_free(block);
    count_cases();
  }
}

// Memory that a thread's heap got by spilling is not handed to a caller that names the node.
TEST_F(NumaPlaced, AHeapWithForeignSpansServesNoBoundHeap) {
  constexpr size_t kSize = 5'000;
  near_malloc_trim(0);
  std::vector<void*> foreign;
  on_cpu(0, [&] {
    near_free(near_malloc(1));
    exhaust(0);
    for (int i = 0; i < 600; i++) foreign.push_back(near_malloc(kSize));
    for (size_t i = 0; i < foreign.size(); i += 2) near_free(foreign[i]);
  });
  for (near::Span* span : taken_) near::shard_of(*span).give(span);
  taken_.clear();
  fake_os::refuse_below(0);
  near_heap* heap = near_heap_create_on_node(id(0), 0);
  std::vector<void*> blocks;
  for (int i = 0; i < 1'000; i++) {
    blocks.push_back(near_heap_malloc(heap, kSize));
    blocks.push_back(near_malloc_on_node(kSize, id(0), NEAR_STRICT));
  }
  EXPECT_EQ(count_on(blocks, 0), blocks.size());
  free_all(blocks);
  near_heap_destroy(heap);
  for (size_t i = 1; i < foreign.size(); i += 2) near_free(foreign[i]);
  spills_ = stats().spills;
  count_cases();
}

TEST_F(NumaPlaced, AnInterleavedHeapServesFromAllNodesInTurn) {
  near_heap* heap = near_heap_create_interleaved();
  ASSERT_NE(heap, nullptr);
  for (const size_t size : {size_t{50}, size_t{2'000}, size_t{30'000}, 2 * kMiB}) {
    std::vector<void*> blocks;
    for (unsigned i = 0; i < 10 * topology.count; i++) {
      blocks.push_back(near_heap_malloc(heap, size));
    }
    for (unsigned n = 0; n < topology.count; n++) EXPECT_EQ(count_on(blocks, n), 10u) << size;
    free_all(blocks);
    count_cases();
  }
  near_heap_destroy(heap);
}

TEST_F(NumaPlaced, BlocksOutliveTheirHeap) {
  std::vector<void*> blocks;
  for (unsigned n = 0; n < topology.count; n++) {
    near_heap* heap = near_heap_create_on_node(id(n), NEAR_STRICT);
    for (size_t i = 0; i < 2'000; i++) {
      blocks.push_back(near_heap_malloc(heap, 100 + i % 5'000));
      fill(blocks.back(), 100, i);
    }
    near_heap_destroy(heap);
    count_cases();
  }
  for (size_t i = 0; i < blocks.size(); i++) {
    ASSERT_TRUE(holds(blocks[i], 100, i % 2'000));
    ASSERT_EQ(near_node_of(blocks[i]), id(static_cast<unsigned>(i / 2'000)));
  }
  on_cpu(other_node(), [&] { free_all(blocks); });
}

TEST_F(NumaPlaced, HeapsAreUsedAgain) {
  near_heap_destroy(near_heap_create_interleaved());
  const uint64_t before = stats().heaps;
  for (int i = 0; i < 1'000; i++) {
    near_heap* heap = near_heap_create_interleaved();
    ASSERT_NE(heap, nullptr);
    near_free(near_heap_malloc(heap, 100));
    near_heap_destroy(heap);
    count_cases();
  }
  EXPECT_EQ(stats().heaps, before);
}

TEST_F(NumaPlaced, AHeapIsForManyThreadsAtOnce) {
  near_heap* heap = near_heap_create_interleaved();
  std::atomic<size_t> wrong{0};
  const size_t steps = scaled(20'000);
  run_threads(4, [&](unsigned t) {
    set_cpu(t % topology.count);
    Random random(seed() + t);
    std::vector<std::pair<void*, size_t>> mine(64);
    for (size_t i = 0; i < steps; i++) {
      auto& [block, size] = mine[random.below(mine.size())];
      wrong += block != nullptr && !holds(block, size, size) ? 1 : 0;
      near_free(block);
      size = random.size_up_to(12);
      block = random.below(2) == 0 ? near_heap_malloc(heap, size)
                                   : near_malloc_on_node(size, id(t % topology.count), 0);
      fill(block, size, size);
    }
    for (auto& [block, size] : mine) near_free(block);
  });
  EXPECT_EQ(wrong.load(), 0u);
  near_heap_destroy(heap);
  count_cases(4 * steps);
}

TEST_F(NumaPlaced, WhatASharedHeapHoldsWithoutNeedIsGivenBack) {
  near_malloc_trim(0);  // gives back what the heap had when parked
  near_heap* heap = near_heap_create_on_node(id(0), 0);
  const uint64_t before = node_stats(0).in_spans;
  std::vector<void*> blocks;
  for (int i = 0; i < 5'000; i++) blocks.push_back(near_heap_malloc(heap, 1'000));
  EXPECT_GT(node_stats(0).in_spans, before + 4 * kMiB);
  free_all(blocks);
  near_malloc_trim(0);
  EXPECT_EQ(node_stats(0).in_spans, before);
  near_heap_destroy(heap);
  count_cases(2);
}

TEST_F(NumaPlaced, SharedHeapsSurviveAFork) {
  if (NEAR_TSAN != 0) GTEST_SKIP() << "forks are not for TSan";
  near_heap* heap = near_heap_create_on_node(id(other_node()), 0);
  void* before = near_heap_malloc(heap, 100);
  const int status = run_in_child([&] {
    bool good = near_node_of(before) == id(other_node());
    near_free(before);
    for (int i = 0; i < 1'000 && good; i++) {
      good = near_node_of(near_heap_malloc(heap, 100)) == id(other_node());
      good = good && near_node_of(near_malloc_on_node(100, id(0), 0)) == id(0);
    }
    for (int i = 0; i < 100 && good; i++) {  // no thread gets a shared heap
      const near::Heap* taken = near::take_heap(i % 2 == 0 ? 0 : other_node());
      good = taken != nullptr && !taken->is_shared();
    }
    near_heap_destroy(heap);
    return good && near_check() == 0 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  near_free(before);
  near_heap_destroy(heap);
  count_cases();
}

}  // namespace
}  // namespace near_test

// Threads that move between nodes: when they get a heap there, and where their blocks lie
// meanwhile.
#include <vector>

#include "front/thread.h"
#include "heap/registry.h"
#include "profile/profiling.h"
#include "support/cases.h"
#include "support/numa_room.h"
#include "support/pattern.h"
#include "support/threads.h"

namespace near_test {
namespace {

using near::kMiB;
using near::topology;

constexpr unsigned kSettle = 8;  // as in front/thread.cc

class NumaRehome : public NumaTest {
 protected:
  // Takes a block by a slow path of malloc: all bins are empty before.
  void* take_slow_path() {
    {
      const near::LockGuard guard(near::current_heap->lock);
      near::current_heap->flush();
    }
    const uint64_t before = stats().refills;
    void* block = near_malloc(200);
    EXPECT_EQ(stats().refills, before + 1);
    return block;
  }
  static bool is_on(const void* block, unsigned node) {
    return near_node_of(block) == static_cast<int>(node);
  }
};

TEST_F(NumaRehome, TheFirstSlowPathElsewhereIsLocal) {
  for (unsigned n = 1; n < topology.count; n++) {
    on_cpu(0, [&] {
      near_free(near_malloc(500));
      const uint64_t before = stats().rehomes;
      set_cpu(n);
      void* block = take_slow_path();
      EXPECT_TRUE(is_on(block, n));
      EXPECT_EQ(near::current_heap->node(), n);
      EXPECT_EQ(stats().rehomes, before + 1);
      near_free(block);
      const auto blocks = allocate_many(700);
      EXPECT_EQ(count_on(blocks, n), blocks.size()) << "and all that follow";
      free_all(blocks);
    });
    count_cases();
  }
}

TEST_F(NumaRehome, TheHeapAndItsSpansStayOnTheirNode) {
  on_cpu(0, [&] {
    const auto old_blocks = allocate_many(500);
    const uint64_t before = stats().rehomes;
    const near::Heap* old_heap = near::current_heap;
    set_cpu(other_node());
    near_free(take_slow_path());
    EXPECT_NE(near::current_heap, old_heap);
    EXPECT_TRUE(old_heap->registration.parked);
    EXPECT_EQ(count_on(old_blocks, 0), old_blocks.size());
    free_all(old_blocks);
    const auto blocks = allocate_many(500, 4 * kMiB);
    EXPECT_EQ(count_on(blocks, other_node()), blocks.size());
    free_all(blocks);
    EXPECT_EQ(stats().rehomes, before + 1);
  });
  count_cases(4);
}

// The thread leaves its heap in the midst of a sample, and another one takes that heap.
TEST_F(NumaRehome, AHeapThatAThreadLeftIsSampled) {
  const Profiling profiling(1);
  const near::Heap* left = nullptr;
  on_cpu(0, [&] {
    near_free(near_malloc(1000));
    left = near::current_heap;
    set_cpu(other_node());
    near_free(near_malloc(1000));
    EXPECT_NE(near::current_heap, left);
  });
  on_cpu(0, [&] {
    for (unsigned i = 0; i < 10; i++) {
      void* block = near_malloc(1000);
      EXPECT_EQ(near::current_heap, left);
      EXPECT_EQ(near::span_of(block)->sampled, near::Sampled::blocks);
      near_free(block);
      count_cases();
    }
  });
}

// These tests run without a purge thread, as a process with one thread does.
TEST_F(NumaRehome, WhatAThreadFreesToTheHeapItLeftComesBack) {
  on_cpu(0, [&] {
    const auto old_blocks = allocate_many(500, 3 * kMiB);  // too few spans to make a free look
    const uint64_t held = near::nodes[0].totals().in_spans;
    set_cpu(other_node());
    std::vector<void*> blocks = {take_slow_path()};
    free_all(old_blocks);
    EXPECT_GE(near::nodes[0].totals().in_spans + kMiB, held);
    for (int i = 0; i < 256; i++) blocks.push_back(take_slow_path());
    EXPECT_LT(near::nodes[0].totals().in_spans + 2 * kMiB, held);
    free_all(blocks);
  });
  count_cases();
}

TEST_F(NumaRehome, AThreadThatTakesNoSlowPathStays) {
  on_cpu(0, [&] {
    void* held = near_malloc(600);  // so that its span stays
    const uint64_t before = stats().rehomes;
    for (int round = 0; round < 50; round++) {
      near_free(near_malloc(600));  // a free block is at hand now
      set_cpu(other_node());
      for (int i = 0; i < 100; i++) near_free(near_malloc(600));
      set_cpu(0);
      near_free(take_slow_path());
      count_cases();
    }
    EXPECT_EQ(stats().rehomes, before);
    EXPECT_EQ(near::current_heap->node(), 0u);
    near_free(held);
  });
}

TEST_F(NumaRehome, AThreadThatComesAndGoesChangesHeapsSeldom) {
  on_cpu(0, [&] {
    near_free(near_malloc(1));
    const uint64_t before = stats().rehomes;
    constexpr unsigned kSteps = 20 * kSettle;
    std::vector<void*> blocks;
    for (unsigned i = 0; i < kSteps; i++) {
      set_cpu(i % 2 == 0 ? other_node() : 0);
      blocks.push_back(take_slow_path());
      count_cases();
    }
    const uint64_t changes = stats().rehomes - before;
    EXPECT_LE(changes, kSteps / kSettle + 1);
    EXPECT_GE(changes, 2u);
    free_all(blocks);
  });
}

TEST_F(NumaRehome, WhoMovedJustNowMovesAgainAfterEightSlowPaths) {
  on_cpu(0, [&] {
    near_free(near_malloc(1));
    const uint64_t before = stats().rehomes;
    set_cpu(other_node());
    std::vector<void*> blocks = {take_slow_path()};
    ASSERT_EQ(stats().rehomes, before + 1);
    set_cpu(0);
    for (unsigned i = 1; i < kSettle; i++) {
      blocks.push_back(take_slow_path());
      EXPECT_TRUE(is_on(blocks.back(), other_node())) << i;
      EXPECT_EQ(stats().rehomes, before + 1) << i;
    }
    blocks.push_back(take_slow_path());
    EXPECT_TRUE(is_on(blocks.back(), 0));
    EXPECT_EQ(stats().rehomes, before + 2);
    free_all(blocks);
  });
  count_cases(kSettle);
}

TEST_F(NumaRehome, ALargeBlockIsLocalAlwaysAndASlowPath) {
  on_cpu(0, [&] {
    near_free(near_malloc(1));
    const uint64_t before = stats().rehomes;
    for (unsigned i = 0; i < 3 * kSettle; i++) {
      const unsigned node = i % 2 == 0 ? other_node() : 0;
      set_cpu(node);
      for (const size_t size : {size_t{40'000}, 3 * kMiB}) {
        void* block = near_malloc(size);
        EXPECT_TRUE(is_on(block, node)) << i;
        void* zeroed = near_calloc(1, size);
        EXPECT_TRUE(is_on(zeroed, node)) << i;
        void* aligned = near_aligned_alloc(kMiB, size);
        EXPECT_TRUE(is_on(aligned, node)) << i;
        for (void* each : {block, zeroed, aligned}) near_free(each);
        count_cases();
      }
      if (i == 0) {
        EXPECT_EQ(stats().rehomes, before + 1) << "the heap moved with the first";
      }
    }
  });
}

TEST_F(NumaRehome, ReallocStaysInPlaceAndMovesHome) {
  on_cpu(0, [&] {
    auto* block = static_cast<char*>(near_malloc(3 * kMiB));
    fill_range(block, 0, 20'000, 1);
    EXPECT_EQ(near_realloc(block, 2 * kMiB), block);
    set_cpu(other_node());
    auto* grown = static_cast<char*>(near_realloc(block, 2 * kMiB + near::kSliceSize));
    EXPECT_EQ(grown, block) << "what it gave back is behind it";
    EXPECT_TRUE(is_on(grown, 0)) << "in place it stays where it is";
    auto* shrunk = static_cast<char*>(near_realloc(grown, kMiB));
    EXPECT_TRUE(is_on(shrunk, 0));
    auto* moved = static_cast<char*>(near_realloc(shrunk, 20'000));
    EXPECT_TRUE(is_on(moved, other_node())) << "what moves comes to the thread";
    EXPECT_TRUE(range_holds(moved, 0, 20'000, 1));
    near_free(moved);
  });
  count_cases(4);
}

}  // namespace
}  // namespace near_test

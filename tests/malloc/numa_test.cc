// The rules of placement through the public functions, on a fake topology and fake CPUs.
#include <memory>
#include <set>
#include <vector>

#include "front/front.h"
#include "heap/registry.h"
#include "support/cases.h"
#include "support/numa_room.h"
#include "support/pattern.h"
#include "support/threads.h"

namespace near_test {
namespace {

using near::kClasses;
using near::kSizeClasses;
using near::topology;

TEST_F(NumaTest, BlocksComeFromTheNodeOfTheThread) {
  for (unsigned n = 0; n < topology.count; n++) {
    on_cpu(n, [&] {
      for (unsigned c = 0; c < kClasses; c++) {
        const auto blocks = allocate_many(kSizeClasses[c].size);
        EXPECT_EQ(count_on(blocks, n), blocks.size()) << kSizeClasses[c].size;
        free_all(blocks);
        count_cases();
      }
      for (const size_t size : {size_t{40'000}, near::kMiB, 9 * near::kMiB}) {
        void* large = near_malloc(size);
        EXPECT_EQ(near_node_of(large), static_cast<int>(n));
        large = near_realloc(large, 2 * size);
        EXPECT_EQ(near_node_of(large), static_cast<int>(n));
        near_free(large);
        void* aligned = near_aligned_alloc(near::kMiB, size);
        EXPECT_EQ(near_node_of(aligned), static_cast<int>(n));
        near_free(aligned);
        count_cases();
      }
      EXPECT_EQ(near::current_heap->node(), n);
    });
  }
}

TEST_F(NumaTest, ABlockReturnsToItsSpanWhoeverFreesIt) {
  for (const size_t size : {size_t{64}, size_t{1000}, size_t{9000}}) {
    Worker owner(0);
    Worker freer(other_node());
    std::vector<void*> blocks;
    owner([&] { blocks = allocate_many(size); });
    EXPECT_EQ(count_on(blocks, 0), blocks.size());
    const std::set<void*> theirs(blocks.begin(), blocks.end());
    freer([&] {
      free_all(blocks);
      const auto mine = allocate_many(size);
      EXPECT_EQ(count_on(mine, other_node()), mine.size());
      free_all(mine);
    });
    owner([&] {
      const auto again = allocate_many(size);
      size_t same = 0;
      for (void* block : again) same += theirs.count(block);
      EXPECT_GE(same, again.size() / 4) << "of " << size << " bytes";
      EXPECT_EQ(count_on(again, 0), again.size());
      free_all(again);
    });
    count_cases(2);
  }
}

TEST_F(NumaTest, ABatchGoesHomeToEveryNode) {
  std::vector<std::unique_ptr<Worker>> owners;
  std::vector<void*> blocks;
  std::vector<std::set<void*>> homes;
  for (unsigned n = 0; n < topology.count; n++) {
    owners.push_back(std::make_unique<Worker>(n));
    std::vector<void*> mine;
    (*owners[n])([&] { mine = allocate_many(1000); });
    homes.emplace_back(mine.begin(), mine.end());
    for (size_t i = 0; i < mine.size(); i++) {  // the nodes alternate
      blocks.insert(blocks.begin() + static_cast<long>(i * n), mine[i]);
    }
  }
  const size_t groups = near_free_batch(blocks.data(), blocks.size());
  EXPECT_LT(groups, blocks.size() / 20);
  for (unsigned n = 0; n < topology.count; n++) {
    (*owners[n])([&] {
      const auto again = allocate_many(1000);
      size_t same = 0;
      for (void* block : again) same += homes[n].count(block);
      EXPECT_GE(same, again.size() / 2) << "node " << n;
      EXPECT_EQ(count_on(again, n), again.size());
      near_free_batch(again.data(), again.size());
    });
    count_cases();
  }
}

TEST_F(NumaTest, LargeBlocksReturnToTheirNode) {
  for (unsigned n = 0; n < topology.count; n++) {
    void* block = nullptr;
    on_cpu(n, [&] { block = near_malloc(5 * near::kMiB); });
    const size_t before = near::nodes[n].totals().in_spans;
    on_cpu((n + 1) % topology.count, [&] { near_free(block); });
    EXPECT_LE(near::nodes[n].totals().in_spans, before - 5 * near::kMiB);
    count_cases();
  }
}

TEST_F(NumaTest, OrphansAreAdoptedOnTheirNodeAlone) {
  constexpr size_t kSize = 192;
  Worker here(0);
  Worker there(other_node());
  here([] { near_free(near_malloc(kSize)); });
  there([] { near_free(near_malloc(kSize)); });
  std::vector<void*> left;
  on_cpu(0, [&] {
    left = allocate_many(kSize);
    for (size_t i = 0; i < left.size(); i++) {
      if (i % 4 != 0) near_free(left[i]);
    }
  });
  const uint64_t before = stats().adoptions;
  std::vector<void*> blocks;
  there([&] { blocks = allocate_many(kSize); });
  EXPECT_EQ(stats().adoptions, before);
  EXPECT_EQ(count_on(blocks, other_node()), blocks.size());
  there([&] { free_all(blocks); });
  here([&] { blocks = allocate_many(kSize); });
  EXPECT_GT(stats().adoptions, before);
  EXPECT_EQ(count_on(blocks, 0), blocks.size());
  here([&] { free_all(blocks); });
  for (size_t i = 0; i < left.size(); i += 4) near_free(left[i]);
  count_cases(2);
}

TEST_F(NumaTest, AHeapThatEndedGoesToAThreadOfItsNode) {
  uint32_t ended = 0;
  on_cpu(other_node(), [&] {
    near_free(near_malloc(1));
    ended = near::current_heap->id();
  });
  on_cpu(0, [&] {
    near_free(near_malloc(1));
    EXPECT_NE(near::current_heap->id(), ended);
  });
  on_cpu(other_node(), [&] {
    near_free(near_malloc(1));
    EXPECT_EQ(near::current_heap->id(), ended);
  });
  count_cases(2);
}

TEST_F(NumaTest, ManyThreadsOnAllNodesExchangeBlocks) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned i = 0; i < 2 * topology.count; i++) {
    workers.push_back(std::make_unique<Worker>(i % topology.count));
  }
  std::vector<std::vector<void*>> blocks(workers.size());
  Random random(seed());
  for (size_t round = 0; round < scaled(200); round++) {
    const size_t w = random.below(workers.size());
    const size_t size = random.size_up_to(17);
    (*workers[w])([&] {
      if (round % 3 != 2) {
        for (void* block : allocate_many(size, 100'000)) {
          EXPECT_EQ(near_node_of(block), static_cast<int>(w % topology.count));
          fill(block, size, size);
          blocks[random.below(blocks.size())].push_back(block);
        }
      } else {
        free_all(blocks[w]);
        blocks[w].clear();
      }
    });
    if (HasFailure()) FAIL() << "round " << round << ", seed " << seed();
    count_cases();
  }
  for (const auto& each : blocks) free_all(each);
}

}  // namespace
}  // namespace near_test

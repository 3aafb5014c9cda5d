// The tree of runs against a search over all slices.
#include "node/run_tree.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

#include "base/bits.h"
#include "support/cases.h"
#include "support/pattern.h"

namespace near_test {
namespace {

using near::Chunk;
using near::kChunkSlices;
using near::RunTree;

// The first of the lowest run of `slices` that touches an end of a chunk, by looking at each slice.
uint64_t search(const std::vector<Chunk>& chunks, size_t end, uint32_t slices) {
  uint64_t length = 0;
  for (uint64_t i = 0; i < end * kChunkSlices; i++) {
    const uint32_t free = chunks[i / kChunkSlices].free;
    length = (free >> i % kChunkSlices & 1) != 0 ? length + 1 : 0;
    const bool ends = i + 1 == end * kChunkSlices ||
                      (chunks[(i + 1) / kChunkSlices].free >> (i + 1) % kChunkSlices & 1) == 0;
    if (!ends || length < slices) continue;
    const uint64_t first = i + 1 - length;
    const bool inside = first / kChunkSlices == i / kChunkSlices && first % kChunkSlices != 0 &&
                        (i + 1) % kChunkSlices != 0;
    if (!inside) return first;
  }
  return RunTree::kNowhere;
}

uint32_t any_mask(Random& random) {
  switch (random.below(4)) {
    case 0:
      return 0;
    case 1:
      return static_cast<uint32_t>(random.below(near::kWholeChunk));
    default:
      return near::kWholeChunk;
  }
}

TEST(RunTree, FindsWhatASearchFinds) {
  constexpr uint32_t kChunks = 100;
  std::vector<Chunk> chunks(128);
  RunTree tree;
  tree.init(chunks.data());
  EXPECT_EQ(tree.find(1), RunTree::kNowhere);
  Random random(seed());
  uint32_t end = 0;
  for (size_t step = 0; step < scaled(5'000); step++) {
    // The tree grows at the first step, so that a short run has cases too. (In 150 steps of seed
    // 8 it would never grow.)
    if (end == 0 || (end < kChunks && random.below(40) == 0)) {
      end += static_cast<uint32_t>(1 + random.below(7));
      tree.grow_to(end);
    }
    const auto index = static_cast<uint32_t>(random.below(end));
    chunks[index].free = any_mask(random);
    tree.update(index);
    ASSERT_TRUE(tree.check());
    const auto slices = static_cast<uint32_t>(1 + random.below(400));
    ASSERT_EQ(tree.find(slices), search(chunks, end, slices))
        << slices << " slices, step " << step << ", seed " << seed();
    count_cases();
  }
}

// In a heap of 64 GiB a search reads about as many entries as the tree is high: of the table's
// 512 pages it reads only those with these entries.
TEST(RunTree, LooksAtFewChunksOfALargeHeap) {
  constexpr uint32_t kChunks = 1 << 15;
  constexpr size_t kBytes = kChunks * sizeof(Chunk);
  constexpr size_t kPage = 4096;
  void* table = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(table, MAP_FAILED);
  madvise(table, kBytes, MADV_NOHUGEPAGE);
  auto* chunks = static_cast<Chunk*>(table);
  RunTree tree;
  tree.init(chunks);
  tree.grow_to(kChunks);
  chunks[kChunks - 1].free = near::kWholeChunk;
  tree.update(kChunks - 1);
  EXPECT_EQ(tree.find(kChunkSlices), uint64_t{kChunks - 1} * kChunkSlices);
  EXPECT_EQ(tree.find(kChunkSlices + 1), RunTree::kNowhere);
  std::vector<unsigned char> resident(kBytes / kPage);
  ASSERT_EQ(mincore(table, kBytes, resident.data()), 0);
  size_t touched = 0;
  for (const unsigned char page : resident) touched += page & 1;
  EXPECT_LE(touched, 4u * 15);
  munmap(table, kBytes);
  count_cases();
}

}  // namespace
}  // namespace near_test

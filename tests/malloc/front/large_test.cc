// Where large blocks begin: at lines of their first page, so that they do not share sets of the
// caches; at no cost in pages, and at a slice where a program asks for alignment or a block grows.
#include "front/large.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "front/front.h"
#include "nearmalloc/nearmalloc.h"
#include "node/memory.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/pattern.h"
#include "support/said_of.h"

namespace near_test {
namespace {

using near::kKiB;
using near::kMediumMax;
using near::kMiB;
using near::kPageSize;
using near::kSliceSize;

size_t offset_of(const void* block) { return reinterpret_cast<uintptr_t>(block) % kSliceSize; }

size_t pages_of(const void* block, size_t size) {
  const auto start = reinterpret_cast<uintptr_t>(block);
  return (start + size - 1) / kPageSize - start / kPageSize + 1;
}

class LargeTest : public testing::Test {
 protected:
  void TearDown() override {
    for (void* block : blocks_) near_free(block);
    EXPECT_EQ(near_check(), 0u);
  }
  void* keep(void* block) { return blocks_.emplace_back(block); }

  std::vector<void*> blocks_;
};

TEST_F(LargeTest, BlocksBeginAtManyLinesAndTakeNoMorePages) {
  for (const size_t size : {kMediumMax + 1, size_t{36'865}, 64 * kKiB + 1, size_t{100'000},
                            2 * kSliceSize - kPageSize + 1}) {
    std::set<size_t> offsets;
    for (int i = 0; i < 64; i++) {
      void* block = keep(near_malloc(size));
      EXPECT_EQ(offset_of(block) % 64, 0u);
      EXPECT_LT(offset_of(block), kPageSize);
      EXPECT_EQ(pages_of(block, size), (size + kPageSize - 1) / kPageSize) << size;
      const size_t usable = near_malloc_usable_size(block);
      EXPECT_GE(usable, size);
      EXPECT_EQ(offset_of(static_cast<char*>(block) + usable), 0u) << "up to a slice's end";
      offsets.insert(offset_of(block));
      count_cases();
    }
    EXPECT_GE(offsets.size(), 20u) << size;
  }
}

TEST_F(LargeTest, ABlockThatFillsItsLastPageBeginsAtASlice) {
  for (const size_t size :
       {kMediumMax + kPageSize, 2 * kSliceSize, kSliceSize + 3 * kPageSize - 63}) {
    for (int i = 0; i < 16; i++) EXPECT_EQ(offset_of(keep(near_malloc(size))), 0u) << size;
    count_cases();
  }
}

TEST_F(LargeTest, OfMoreThanTwoSlicesItBeginsAtASlice) {
  for (const size_t size : {2 * kSliceSize + 1, 3 * kMiB + 5}) {
    for (int i = 0; i < 8; i++) EXPECT_EQ(offset_of(keep(near_malloc(size))), 0u) << size;
    count_cases();
  }
}

TEST_F(LargeTest, AlignmentIsKept) {
  for (size_t alignment = 32; alignment <= 4 * kSliceSize; alignment *= 2) {
    for (int i = 0; i < 8; i++) {
      const void* block = keep(near_aligned_alloc(alignment, 40'960 + alignment));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u) << alignment;
      count_cases();
    }
  }
}

TEST_F(LargeTest, ABlockThatMovesBecauseItGrowsBeginsAtASlice) {
  for (int i = 0; i < 16; i++) {
    void* block = near_malloc(1'000);
    fill(block, 1'000, 1);
    block = near_realloc(block, 70'001);
    EXPECT_EQ(offset_of(block), 0u);
    EXPECT_TRUE(holds(static_cast<char*>(block), 1'000, 1));
    keep(block);
    count_cases();
  }
}

// Its last slice has less room for it than for a block that begins at a slice.
TEST_F(LargeTest, AResizedBlockStaysWithinItsRun) {
  constexpr size_t kSize = kSliceSize + 1;
  for (int i = 0; i < 32; i++) {
    char* block = static_cast<char*>(near_malloc(kSize));
    fill(block, kSize, 2);
    const size_t usable = near_malloc_usable_size(block);
    char* full = static_cast<char*>(near_realloc(block, usable));
    EXPECT_EQ(full, block);
    char* more = static_cast<char*>(near_realloc(full, 2 * kSliceSize));
    EXPECT_GE(near_malloc_usable_size(more), 2 * kSliceSize);
    EXPECT_TRUE(holds(more, kSize, 2));
    fill(more, 2 * kSliceSize, 3);
    char* less = static_cast<char*>(near_realloc(more, kMediumMax + 1));
    EXPECT_EQ(less, more);
    EXPECT_EQ(near_malloc_usable_size(less), kSliceSize - offset_of(less));
    keep(less);
    count_cases();
  }
}

// The run of a freed block serves a block that begins elsewhere in it.
TEST_F(LargeTest, ARunThatIsUsedAgainServesEveryOffset) {
  std::set<void*> starts;
  for (size_t size = 2 * kSliceSize; size > 2 * kSliceSize - kPageSize; size -= 16) {
    void* block = near_malloc(size);
    starts.insert(block);
    EXPECT_EQ(pages_of(block, size), 2 * kSliceSize / kPageSize);
    near_free(block);
    count_cases();
  }
  EXPECT_GE(starts.size(), 4u);
}

TEST_F(LargeTest, ZeroedBlocksAreZeroWhereverTheyBegin) {
  constexpr size_t kSize = kMediumMax + 1;
  for (int i = 0; i < 40; i++) {
    auto* block = static_cast<unsigned char*>(near_calloc(1, kSize));
    for (size_t at = 0; at < kSize; at++) ASSERT_EQ(block[at], 0u);
    fill(block, kSize, 4);
    near_free(block);
    count_cases();
  }
}

// Blocks of which little is written stay small, whatever the system's setting for huge pages is.
// Dense ones get huge pages once some blocks of their length were seen.
TEST_F(LargeTest, OnlyDenseBlocksGetHugePages) {
  constexpr size_t kBlocks = 160;
  const auto take_all = [&](size_t size, size_t written) {
    for (size_t i = 0; i < kBlocks; i++) {
      auto* block = static_cast<char*>(keep(near_malloc(size)));
      for (size_t at = 0; at < written; at += kPageSize) block[at] = 1;
    }
  };
  const auto measure = [&](size_t size, size_t written, fake_os::HugePages setting) {
    near_malloc_trim(0);
    const size_t before = fake_os::resident_bytes(setting);
    take_all(size, written);
    const size_t more = fake_os::resident_bytes(setting) - before;
    for (void* block : blocks_) near_free(block);
    blocks_.clear();
    count_cases();
    return more;
  };
  using enum fake_os::HugePages;
  for (const size_t size : {2 * kSliceSize, 7 * kSliceSize, 1000 * kKiB}) {
    // Other tests may have written such blocks wholly.
    for (int i = 0; i < 20 && measure(size, kPageSize, madvise) > 4 * kMiB; i++) continue;
    for (const auto setting : {never, madvise, always}) {
      EXPECT_LE(measure(size, kPageSize, setting), kBlocks * 2 * kPageSize + 2 * kMiB) << size;
    }
  }
  const auto huge_pages_of = [&](size_t size) {
    size_t huge = 0;
    for (void* block : blocks_) huge += fake_os::huge_page_advice(block) == 1 ? size : 0;
    return huge;
  };
  near_malloc_trim(0);
  take_all(14 * kSliceSize, 14 * kSliceSize);
  EXPECT_GE(huge_pages_of(14 * kSliceSize), kBlocks * 14 * kSliceSize * 3 / 4);
}

TEST_F(LargeTest, TheStartOfItsSliceIsNoBlock) {
  char* block = nullptr;
  while (block == nullptr || offset_of(block) == 0) {
    block = static_cast<char*>(keep(near_malloc(kMediumMax + 1)));
  }
  char* const slice = block - offset_of(block);
  EXPECT_EQ(near_malloc_usable_size(slice), 0u);
  const std::string said = said_of([&] { near_free(slice); });
  EXPECT_NE(said.find("it is not the start of a block"), std::string::npos) << said;
  const std::string place =
      std::to_string(offset_of(block)) + " bytes before a large block of 32769";
  EXPECT_NE(said.find(place), std::string::npos) << said;
  count_cases();
}

}  // namespace
}  // namespace near_test

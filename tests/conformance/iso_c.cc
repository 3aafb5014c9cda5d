// malloc, calloc, free, free_sized: sizes of zero, sizes that overflow, zeroed memory, distinct
// blocks, errno.
// Source: C17 7.22.3, C23 7.24.3, POSIX.1-2024 (free keeps errno).
#include <algorithm>

#include "support/suite.h"

namespace near_test {
namespace {

template <typename Api>
class IsoC : public AllocatorTest<Api> {};
TYPED_TEST_SUITE(IsoC, ApisUnderTest);

TYPED_TEST(IsoC, ZeroBytesGiveUniqueBlocks) {
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) {
    blocks.push_back(TypeParam::malloc(0));
    blocks.push_back(TypeParam::calloc(0, 8));
    blocks.push_back(TypeParam::calloc(8, 0));
    blocks.push_back(TypeParam::realloc(nullptr, 0));
    blocks.push_back(TypeParam::reallocarray(nullptr, 0, 8));
    blocks.push_back(TypeParam::aligned_alloc(16, 0));
    blocks.push_back(TypeParam::memalign(64, 0));
    blocks.push_back(TypeParam::valloc(0));
  }
  std::vector<void*> sorted = blocks;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_NE(sorted.front(), nullptr);
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
  for (void* block : blocks) TypeParam::free(block);
  count_cases(blocks.size());
}

TYPED_TEST(IsoC, FreeOfNullDoesNothing) {
  TypeParam::free(nullptr);
  EXPECT_EQ(TypeParam::malloc_usable_size(nullptr), 0u);
  count_cases(2);
}

TYPED_TEST(IsoC, CallocRefusesProductsThatOverflow) {
  const size_t half = size_t{1} << 32;
  const size_t pairs[][2] = {{half, half},         {SIZE_MAX, 2},     {2, SIZE_MAX},
                             {SIZE_MAX, SIZE_MAX}, {half + 1, half},  {SIZE_MAX / 2 + 1, 2},
                             {SIZE_MAX / 3, 4},    {3, SIZE_MAX / 2}, {SIZE_MAX / 16 + 1, 16}};
  for (const auto& pair : pairs) {
    errno = 0;
    EXPECT_EQ(TypeParam::calloc(pair[0], pair[1]), nullptr) << pair[0] << " * " << pair[1];
    EXPECT_EQ(errno, ENOMEM);
    count_cases();
  }
}

TYPED_TEST(IsoC, ImpossibleSizesAreOutOfMemory) {
  char* kept = static_cast<char*>(TypeParam::malloc(100));
  fill(kept, 100, 1);
  for (const size_t size : impossible_sizes()) {
    SCOPED_TRACE(size);
    const auto refuses = [&](void* block) {
      EXPECT_EQ(block, nullptr);
      EXPECT_EQ(errno, ENOMEM);
      errno = 0;
      count_cases();
    };
    errno = 0;
    refuses(TypeParam::malloc(size));
    refuses(TypeParam::calloc(1, size));
    refuses(TypeParam::calloc(size, 1));
    refuses(TypeParam::realloc(nullptr, size));
    refuses(TypeParam::realloc(kept, size));
    refuses(TypeParam::reallocarray(kept, 1, size));
    refuses(TypeParam::reallocarray(kept, size, 1));
    refuses(TypeParam::aligned_alloc(16, size));
    refuses(TypeParam::aligned_alloc(4096, size));
    refuses(TypeParam::memalign(kMiB, size));
    refuses(TypeParam::valloc(size));
    refuses(TypeParam::pvalloc(size));
  }
  EXPECT_TRUE(holds(kept, 100, 1));
  TypeParam::free(kept);
}

// The largest object is PTRDIFF_MAX bytes; one of exactly that size never fits an address space of
// 47 bits.
TYPED_TEST(IsoC, PtrdiffMaxIsOutOfMemory) {
  for (const size_t size :
       {size_t{PTRDIFF_MAX}, size_t{PTRDIFF_MAX} - 4096, size_t{1} << 62, size_t{1} << 48}) {
    errno = 0;
    EXPECT_EQ(TypeParam::malloc(size), nullptr) << size;
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(TypeParam::calloc(size, 1), nullptr) << size;
    EXPECT_EQ(errno, ENOMEM);
    count_cases(2);
  }
}

TYPED_TEST(IsoC, CallocIsZeroInRecycledBlocksToo) {
  for (const size_t size : ladder(kLargest)) {
    const size_t copies = size <= 4 * kKiB ? 64 : size <= kMiB ? 4 : 1;
    std::vector<void*> blocks;
    for (int round = 0; round < 3; ++round) {
      for (size_t i = 0; i < copies; ++i) {
        void* block = i % 2 == 0 ? TypeParam::calloc(size, 1) : TypeParam::calloc(1, size);
        ASSERT_NE(block, nullptr) << size;
        const size_t usable = TypeParam::malloc_usable_size(block);
        ASSERT_GE(usable, size);
        ASSERT_TRUE(is_zero(block, size)) << size << " bytes, round " << round;
        memset(block, 0xa5, usable);
        blocks.push_back(block);
        count_cases();
      }
      for (void* block : blocks) TypeParam::free(block);
      blocks.clear();
    }
  }
}

// A window of 2,000 sizes lives at a time; each block is written, and read when the window
// has moved on.
TYPED_TEST(IsoC, EverySizeUpTo70000GivesItsOwnBlock) {
  constexpr size_t kSizes = 70'001;
  constexpr size_t kWindow = 2'000;
  std::vector<void*> blocks(kSizes);
  for (size_t size = 0; size < kSizes + kWindow; ++size) {
    if (size < kSizes) {
      blocks[size] = TypeParam::malloc(size);
      ASSERT_NE(blocks[size], nullptr) << size;
      const size_t needed = size >= 16 ? 16 : 8;
      ASSERT_EQ(address(blocks[size]) % needed, 0u) << size;
      ASSERT_GE(TypeParam::malloc_usable_size(blocks[size]), size);
      fill(blocks[size], size, size);
    }
    if (size >= kWindow) {
      const size_t old = size - kWindow;
      ASSERT_TRUE(holds(blocks[old], old, old)) << old;
      TypeParam::free(blocks[old]);
      count_cases();
    }
  }
}

// Blocks that live together do not overlap, judged by their addresses.
TYPED_TEST(IsoC, LiveBlocksDoNotOverlap) {
  Random random(seed());
  std::vector<std::pair<uintptr_t, size_t>> live;
  for (int i = 0; i < 20'000; ++i) {
    const size_t size = random.size_up_to(15);
    void* block = TypeParam::malloc(size);
    ASSERT_NE(block, nullptr);
    live.emplace_back(address(block), TypeParam::malloc_usable_size(block));
  }
  std::sort(live.begin(), live.end());
  for (size_t i = 1; i < live.size(); ++i) {
    ASSERT_LE(live[i - 1].first + live[i - 1].second, live[i].first)
        << "blocks " << i - 1 << " and " << i;
    count_cases();
  }
  for (const auto& [start, size] : live) TypeParam::free(reinterpret_cast<void*>(start));
}

TYPED_TEST(IsoC, FreeKeepsErrno) {
  for (const size_t size : ladder(kLargest)) {
    void* block = TypeParam::malloc(size);
    ASSERT_NE(block, nullptr);
    fill(block, size, size);
    errno = 12345;
    TypeParam::free(block);
    EXPECT_EQ(errno, 12345) << size;
    count_cases();
  }
  errno = 12345;
  TypeParam::free(nullptr);
  EXPECT_EQ(errno, 12345);
}

TYPED_TEST(IsoC, SizedFreesTakeTheSizeThatWasAskedFor) {
  if (TypeParam::free_sized == nullptr) {
    ASSERT_FALSE(on_nearmalloc());
    GTEST_SKIP() << "this C library has no free_sized";
  }
  TypeParam::free_sized(nullptr, 8);
  TypeParam::free_aligned_sized(nullptr, 8, 8);
  for (const size_t size : ladder(4 * kMiB)) {
    errno = 12345;
    TypeParam::free_sized(TypeParam::malloc(size), size);
    TypeParam::free_sized(TypeParam::calloc(1, size), size);
    TypeParam::free_sized(TypeParam::realloc(TypeParam::malloc(1), size), size);
    const size_t less = std::max(size * 5 / 8, size_t{1});  // the block may stay where it is
    TypeParam::free_sized(TypeParam::realloc(TypeParam::malloc(size), less), less);
    for (const size_t alignment : {size_t{8}, size_t{64}, size_t{4096}}) {
      TypeParam::free_aligned_sized(TypeParam::aligned_alloc(alignment, size), alignment, size);
    }
    EXPECT_EQ(errno, 12345);
    count_cases(6);
  }
}

// What one free gives back serves the next request: a thousand rounds of 64 MiB do not need 64 GiB.
TYPED_TEST(IsoC, FreedMemoryIsUsedAgain) {
  for (const size_t size : {size_t{48}, 3 * kKiB, 100 * kKiB, 3 * kMiB, kLargest}) {
    const auto before = TypeParam::mallinfo2();
    for (int round = 0; round < 1000; ++round) {
      void* block = TypeParam::malloc(size);
      ASSERT_NE(block, nullptr);
      static_cast<char*>(block)[size / 2] = 1;
      TypeParam::free(block);
      count_cases();
    }
    const auto after = TypeParam::mallinfo2();
    EXPECT_LE(after.arena + after.hblkhd, before.arena + before.hblkhd + 2 * kLargest) << size;
  }
}

}  // namespace
}  // namespace near_test

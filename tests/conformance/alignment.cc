// aligned_alloc, posix_memalign, memalign, valloc, pvalloc: every power of two up to 64 MiB, and
// what is no power of two.
// Source: C17 7.22.3.1 with DR 460, POSIX.1-2017 posix_memalign, glibc's memalign, valloc and
// pvalloc.
#include <unistd.h>

#include "support/suite.h"

namespace near_test {
namespace {

constexpr size_t kLargestAlignment = 64 * kMiB;

template <typename Api>
class Alignment : public AllocatorTest<Api> {
 protected:
  // Allocates through each of the aligned functions, checks the blocks while they live together,
  // and frees them.
  static void check(size_t alignment, size_t size) {
    void* blocks[4] = {Api::aligned_alloc(alignment, size), Api::memalign(alignment, size), nullptr,
                       Api::aligned_alloc(alignment, size)};
    if (alignment >= sizeof(void*)) {
      ASSERT_EQ(Api::posix_memalign(&blocks[2], alignment, size), 0) << alignment << ", " << size;
    } else {
      blocks[2] = Api::malloc(size);
    }
    for (size_t i = 0; i < 4; ++i) {
      ASSERT_NE(blocks[i], nullptr) << alignment << ", " << size;
      ASSERT_EQ(address(blocks[i]) % alignment, 0u) << alignment << ", " << size;
      ASSERT_GE(Api::malloc_usable_size(blocks[i]), size);
      fill(blocks[i], size, i);
    }
    for (size_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(holds(blocks[i], size, i)) << alignment << ", " << size;
      Api::free(blocks[i]);
      count_cases();
    }
  }
};
TYPED_TEST_SUITE(Alignment, ApisUnderTest);

TYPED_TEST(Alignment, EveryPowerOfTwoUpTo64MiBHolds) {
  for (size_t alignment = 1; alignment <= kLargestAlignment; alignment *= 2) {
    for (const size_t size : ladder(256 * kKiB)) {
      if (alignment > kMiB && size % 3 != 0) continue;
      this->check(alignment, size);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(Alignment, SizesAroundTheAlignmentHold) {
  for (size_t alignment = 8; alignment <= kLargestAlignment; alignment *= 2) {
    for (const size_t size : {size_t{0}, alignment - 1, alignment, alignment + 1, 3 * alignment / 2,
                              2 * alignment + 8}) {
      this->check(alignment, size);
      if (this->HasFatalFailure()) return;
    }
  }
}

// Many blocks live at once, so that neighbours and carving are exercised, not only the first block
// of a span.
TYPED_TEST(Alignment, ManyAlignedBlocksLiveTogether) {
  struct Block {
    void* start;
    size_t size;
    size_t alignment;
  };
  Random random(seed());
  std::vector<Block> live;
  for (uint64_t i = 0; i < 30'000; ++i) {
    if (live.size() > 2'000) {
      const size_t victim = random.below(live.size());
      ASSERT_TRUE(holds(live[victim].start, live[victim].size, address(live[victim].start)));
      TypeParam::free(live[victim].start);
      live[victim] = live.back();
      live.pop_back();
    }
    const size_t alignment = size_t{1} << random.below(15);
    const size_t size = random.size_up_to(14);
    void* block = TypeParam::memalign(alignment, size);
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(address(block) % alignment, 0u) << alignment << ", " << size;
    fill(block, size, address(block));
    live.push_back({block, size, alignment});
    count_cases();
  }
  for (const Block& block : live) {
    ASSERT_TRUE(holds(block.start, block.size, address(block.start)));
    TypeParam::free(block.start);
  }
}

TYPED_TEST(Alignment, MallocIsAlignedForAnyObject) {
  for (size_t size = 0; size < 5'000; ++size) {
    void* block = TypeParam::malloc(size);
    void* zeroed = TypeParam::calloc(1, size);
    const size_t needed = size >= 16 ? 16 : 8;
    ASSERT_EQ(address(block) % needed, 0u) << size;
    ASSERT_EQ(address(zeroed) % needed, 0u) << size;
    TypeParam::free(block);
    TypeParam::free(zeroed);
    count_cases(2);
  }
}

TYPED_TEST(Alignment, AlignedAllocRefusesWhatIsNoPowerOfTwo) {
  for (const size_t alignment :
       {size_t{0}, size_t{3}, size_t{24}, size_t{4095}, size_t{4097}, kMiB + 1, SIZE_MAX}) {
    errno = 0;
    EXPECT_EQ(TypeParam::aligned_alloc(alignment, 64), nullptr) << alignment;
    EXPECT_EQ(errno, EINVAL) << alignment;
    count_cases();
  }
}

// POSIX leaves errno open. As with glibc, it is ENOMEM without memory, and else untouched.
TYPED_TEST(Alignment, PosixMemalignRefusesAndLeavesOutAlone) {
  int here = 0;
  for (const size_t alignment : {size_t{0}, size_t{1}, size_t{2}, size_t{4}, size_t{7}, size_t{12},
                                 size_t{24}, size_t{4095}, size_t{4104}, SIZE_MAX, SIZE_MAX - 7}) {
    void* out = &here;
    errno = 12345;
    EXPECT_EQ(TypeParam::posix_memalign(&out, alignment, 64), EINVAL) << alignment;
    EXPECT_EQ(out, &here);
    EXPECT_EQ(errno, 12345);
    count_cases();
  }
  for (const size_t size : impossible_sizes()) {
    for (const size_t alignment : {size_t{8}, size_t{16}, size_t{4096}, kMiB}) {
      void* out = &here;
      errno = 12345;
      EXPECT_EQ(TypeParam::posix_memalign(&out, alignment, size), ENOMEM)
          << alignment << ", " << size;
      EXPECT_EQ(out, &here);
      EXPECT_EQ(errno, ENOMEM);
      count_cases();
    }
  }
}

TYPED_TEST(Alignment, PosixMemalignKeepsErrnoWhenItSucceeds) {
  for (size_t alignment = 8; alignment <= kMiB; alignment *= 2) {
    void* out = nullptr;
    errno = 12345;
    EXPECT_EQ(TypeParam::posix_memalign(&out, alignment, 100), 0);
    EXPECT_EQ(errno, 12345);
    EXPECT_EQ(address(out) % alignment, 0u);
    TypeParam::free(out);
    count_cases();
  }
}

TYPED_TEST(Alignment, AlignmentsThatLeaveNoRoomAreRefused) {
  for (size_t alignment = size_t{1} << 48; alignment != 0; alignment *= 2) {
    int here = 0;
    void* out = &here;
    errno = 0;
    EXPECT_EQ(TypeParam::aligned_alloc(alignment, 64), nullptr) << alignment;
    EXPECT_TRUE(errno == ENOMEM || errno == EINVAL) << errno;
    EXPECT_NE(TypeParam::posix_memalign(&out, alignment, 64), 0) << alignment;
    EXPECT_EQ(out, &here);
    count_cases(2);
  }
}

TYPED_TEST(Alignment, MemalignRoundsTheAlignmentUp) {
  const size_t rounded[][2] = {{0, 8},   {1, 8},     {3, 4},       {5, 8},      {24, 32},
                               {48, 64}, {100, 128}, {4095, 4096}, {5000, 8192}};
  for (const auto& [alignment, least] : rounded) {
    for (int i = 0; i < 20; ++i) {
      void* block = TypeParam::memalign(alignment, 40);
      ASSERT_NE(block, nullptr) << alignment;
      EXPECT_EQ(address(block) % least, 0u) << alignment;
      TypeParam::free(block);
      count_cases();
    }
  }
  errno = 0;
  EXPECT_EQ(TypeParam::memalign(SIZE_MAX, 40), nullptr);
  EXPECT_TRUE(errno == EINVAL || errno == ENOMEM);
}

TYPED_TEST(Alignment, VallocAndPvallocStartOnAPage) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const size_t size :
       {size_t{0}, size_t{1}, page - 1, page, page + 1, 3 * page, 100 * page + 5, 4 * kMiB + 3}) {
    void* block = TypeParam::valloc(size);
    void* whole = TypeParam::pvalloc(size);
    ASSERT_NE(block, nullptr);
    ASSERT_NE(whole, nullptr);
    EXPECT_EQ(address(block) % page, 0u) << size;
    EXPECT_EQ(address(whole) % page, 0u) << size;
    size_t rounded = size == 0 ? page : (size + page - 1) / page * page;
    EXPECT_GE(TypeParam::malloc_usable_size(block), size);
    // glibc's pvalloc(0) is no page.
    if (size == 0 && !on_nearmalloc()) rounded = 0;
    ASSERT_GE(TypeParam::malloc_usable_size(whole), rounded) << size;
    fill(whole, rounded, 7);
    fill(block, size, 8);
    EXPECT_TRUE(holds(whole, rounded, 7));
    TypeParam::free(block);
    TypeParam::free(whole);
    count_cases(2);
  }
}

TYPED_TEST(Alignment, AlignedBlocksCanBeResized) {
  for (size_t alignment = 8; alignment <= kMiB; alignment *= 4) {
    for (const size_t size : {size_t{40}, 5 * kKiB, 70 * kKiB, 3 * kMiB}) {
      void* block = TypeParam::aligned_alloc(alignment, size);
      fill_range(static_cast<char*>(block), 0, 40, alignment);
      for (const size_t next : {size * 2, size / 2 + 40, size + 100 * kKiB, size_t{40}}) {
        block = TypeParam::realloc(block, next);
        ASSERT_NE(block, nullptr);
        ASSERT_TRUE(range_holds(static_cast<char*>(block), 0, 40, alignment))
            << alignment << ", " << next;
        count_cases();
      }
      TypeParam::free(block);
    }
  }
}

}  // namespace
}  // namespace near_test

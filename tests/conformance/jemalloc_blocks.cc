// The functions *allocx.
// Source: jemalloc(3) of version 5.3; docs/jemalloc.md.
#include <string>

#include "support/jemalloc_names.h"
#include "support/said_of.h"
#include "support/suite.h"

namespace near_test {
namespace {

constexpr int kAlignments[] = {0, 3, 4, 5, 6, 9, 12, 15, 16, 17, 21, 23};

bool reads_as_zero(const void* block, size_t from, size_t to) {
  const auto* bytes = static_cast<const char*>(block);
  return std::all_of(bytes + from, bytes + to, [](char byte) { return byte == 0; });
}

// Writes to the next blocks of the size, and frees them.
void soil(size_t size, int flags) {
  for (int i = 0; i < 3; i++) {
    void* block = mallocx(size, flags);
    memset(block, 0xff, sallocx(block, flags));
    dallocx(block, flags);
  }
}

TEST(JemallocBlocks, AreAlignedAndWhole) {
  for (const size_t size : ladder(2 * kMiB)) {
    for (const int shift : kAlignments) {
      const int flags = lg_align_flag(shift);
      const size_t whole = nallocx(size, flags);
      void* block = mallocx(size, flags);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(address(block) % (size_t{1} << shift), 0u) << size << " " << shift;
      EXPECT_EQ(sallocx(block, flags), whole) << size << " " << shift;
      EXPECT_EQ(malloc_usable_size(block), whole);
      EXPECT_GE(whole, size);
      fill(block, whole, address(block));
      EXPECT_TRUE(holds(block, whole, address(block)));
      dallocx(block, flags);
      count_cases();
    }
  }
}

// At the edges of every class, before and after neighbouring classes part.
TEST(JemallocBlocks, HaveTheSizeByNallocx) {
  std::vector<void*> many;
  for (const bool parted : {false, true}) {
    for (unsigned bin = 0; bin < control<unsigned>("arenas.nbins"); bin++) {
      const std::string name = "arenas.bin." + std::to_string(bin) + ".size";
      const auto edge = control<size_t>(name.c_str());
      for (const size_t size : {edge - 1, edge, edge + 1}) {
        if (parted && size <= 2 * kKiB) {
          for (int i = 0; i < 200; i++) many.push_back(mallocx(size, 0));
        }
        const size_t whole = nallocx(size, 0);
        void* block = mallocx(size, 0);
        EXPECT_EQ(sallocx(block, 0), whole) << size;
        EXPECT_EQ(nallocx(whole, 0), whole) << size;
        EXPECT_LE(whole, std::max(size + size / 4, size + 16) + (size > 32 * kKiB ? 64 * kKiB : 0));
        dallocx(block, 0);
        count_cases();
      }
    }
  }
  for (void* each : many) dallocx(each, 0);
}

TEST(JemallocBlocks, AreZeroToTheirLastByte) {
  for (const size_t size : ladder(kMiB)) {
    for (const int shift : {0, 6, 12, 17}) {
      const int flags = lg_align_flag(shift) | kZeroFlag;
      soil(size, lg_align_flag(shift));
      void* block = mallocx(size, flags);
      EXPECT_TRUE(reads_as_zero(block, 0, sallocx(block, 0))) << size << " " << shift;
      dallocx(block, 0);
      count_cases();
    }
  }
}

TEST(JemallocBlocks, KeepContentsAndAlignmentWhenTheyAreResized) {
  const std::vector<size_t> sizes = ladder(300 * kKiB);
  for (size_t i = 0; i < sizes.size(); i++) {
    for (const size_t to : {sizes[i] + 56, sizes[sizes.size() - 1 - i / 2], sizes[i / 2]}) {
      for (const int shift : {0, 6, 10, 12, 17}) {
        const int flags = lg_align_flag(shift);
        const size_t kept = std::min(sizes[i], to);
        char* blocks[3];  // neighbours: the first block of a span has every alignment
        for (char*& block : blocks) {
          block = static_cast<char*>(mallocx(sizes[i], flags));
          fill_range(block, 0, kept, i);
          block = static_cast<char*>(rallocx(block, to, flags));
          ASSERT_NE(block, nullptr);
          EXPECT_TRUE(range_holds(block, 0, kept, i)) << sizes[i] << " " << to;
          EXPECT_EQ(address(block) % (size_t{1} << shift), 0u) << sizes[i] << " " << to;
          EXPECT_GE(sallocx(block, 0), to);
          memset(block, 1, sallocx(block, 0));
        }
        for (char* block : blocks) sdallocx(block, to, flags);
        count_cases();
      }
    }
  }
}

// Bytes beyond the real size before become zero.
TEST(JemallocBlocks, GrowWithZeros) {
  for (const size_t size : ladder(300 * kKiB)) {
    for (const size_t to : {size + 1, size + size / 2, 3 * size}) {
      soil(to, 0);
      void* block = mallocx(size, 0);
      const size_t before = sallocx(block, 0);
      memset(block, 0xff, before);
      block = rallocx(block, to, kZeroFlag);
      const size_t after = sallocx(block, 0);
      EXPECT_TRUE(reads_as_zero(block, std::min(before, after), after)) << size << " " << to;
      EXPECT_EQ(static_cast<char*>(block)[std::min(size, to) - 1], '\xff');
      dallocx(block, 0);
      count_cases();
    }
  }
}

TEST(JemallocBlocks, StayWhereXallocxResizesThem) {
  for (const size_t size : ladder(kMiB)) {
    for (const size_t extra : {size_t{0}, size_t{1}, size, SIZE_MAX - 2 * size}) {
      auto* block = static_cast<char*>(mallocx(size, 0));
      fill(block, size, size);
      const size_t real = xallocx(block, 2 * size, extra, 0);
      EXPECT_EQ(real, sallocx(block, 0));
      EXPECT_GE(real, size);
      EXPECT_TRUE(holds(block, size, size));
      const size_t less = xallocx(block, std::max(size / 2, size_t{1}), 0, 0);
      EXPECT_EQ(less, sallocx(block, 0));
      EXPECT_LE(less, real);
      dallocx(block, 0);
      count_cases();
    }
  }
}

TEST(JemallocBlocks, GrowInPlaceAsFarAsThereIsRoom) {
  constexpr size_t kSize = 256 * kKiB;
  auto* block = static_cast<char*>(mallocx(64 * kMiB, 0));  // the end will be free
  memset(block, 0xff, 64 * kMiB);
  EXPECT_EQ(xallocx(block, kSize, 0, 0), kSize);
  const size_t grown = xallocx(block, 2 * kSize, kSize, kZeroFlag);
  EXPECT_EQ(grown, 3 * kSize);
  EXPECT_TRUE(reads_as_zero(block, kSize, grown));
  // Vain `extra` bytes must not make the resize fail.
  const size_t more = xallocx(block, 4 * kSize, size_t{1} << 46, 0);
  EXPECT_EQ(more, 4 * kSize);
  dallocx(block, 0);
  count_cases(3);
}

TEST(JemallocBlocks, AreFreedWithAnySizeFromTheRequestToTheWholeBlock) {
  for (const size_t size : ladder(kMiB)) {
    for (const int shift : {0, 5, 12, 16, 18}) {
      const int flags = lg_align_flag(shift);
      const size_t whole = nallocx(size, flags);
      for (const size_t given : {size, size + (whole - size) / 2, whole}) {
        sdallocx(mallocx(size, flags), given, flags);
        count_cases();
      }
    }
    for (const size_t given : {size, nallocx(size, 0)}) sdallocx(std::malloc(size), given, 0);
  }
}

TEST(JemallocBlocks, AreNotFreedWithTheSizeOfOthers) {
  if (!on_check_build()) GTEST_SKIP() << "only the check build compares sizes";
  for (const size_t size : {size_t{24}, size_t{3000}, 100 * kKiB}) {
    const size_t others = 3 * size;
    const std::string said = said_of([&] { sdallocx(mallocx(size, 0), others, 0); });
    EXPECT_NE(said.find("freed with a size that is not the block's"), std::string::npos) << said;
  }
}

TEST(JemallocBlocks, MixWithTheStandardNames) {
  for (const size_t size : ladder(kMiB)) {
    std::free(mallocx(size, 0));
    dallocx(std::malloc(size), 0);
    void* block = std::realloc(mallocx(size, 0), 2 * size);
    std::free(rallocx(block, 3 * size, 0));
    count_cases();
  }
}

TEST(JemallocBlocks, CannotBeLargerThanAnyObject) {
  for (const size_t size : impossible_sizes()) {
    EXPECT_EQ(nallocx(size, 0), 0u) << size;
    EXPECT_EQ(mallocx(size, 0), nullptr) << size;
    void* block = mallocx(100, 0);
    memset(block, 7, 100);
    EXPECT_EQ(rallocx(block, size, 0), nullptr) << size;
    EXPECT_EQ(static_cast<char*>(block)[99], 7);
    EXPECT_LT(xallocx(block, size, 0, 0), size);
    dallocx(block, 0);
    count_cases();
  }
  EXPECT_EQ(nallocx(1, lg_align_flag(63)), 0u);
  EXPECT_EQ(mallocx(1, lg_align_flag(63)), nullptr);
}

// Arenas and caches of the program are mere numbers.
TEST(JemallocBlocks, ComeFromAnyArenaAndCache) {
  const auto arena = control<unsigned>("arenas.create");
  const auto cache = control<unsigned>("tcache.create");
  for (const int flags : {arena_flag(0), arena_flag(arena), arena_flag(arena) | kNoTcacheFlag,
                          arena_flag(arena) | tcache_flag(cache) | kZeroFlag | 12}) {
    for (const size_t size : ladder(200 * kKiB)) {
      void* block = mallocx(size, flags);
      fill(block, size, size);
      block = rallocx(block, size + 100, flags);
      EXPECT_TRUE(holds(block, std::min(size, size_t{64}), size));
      dallocx(block, flags);
      count_cases();
    }
  }
  EXPECT_EQ(set_control("tcache.destroy", cache), 0);
  EXPECT_EQ(command(("arena." + std::to_string(arena) + ".destroy").c_str()), 0);
}

}  // namespace
}  // namespace near_test

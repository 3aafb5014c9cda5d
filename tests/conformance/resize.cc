// realloc and reallocarray: the common prefix survives every growth and shrink, failure leaves the
// block, zero frees it.
// Source: C17 7.22.3.5, POSIX.1-2024 reallocarray, glibc's realloc(p, 0).
#include "support/suite.h"

namespace near_test {
namespace {

template <typename Api>
class Resize : public AllocatorTest<Api> {
 protected:
  // Resizes a patterned block and checks the prefix; both ends of it for large ones.
  static void check(size_t from, size_t to) {
    auto* block = static_cast<char*>(Api::malloc(from));
    ASSERT_NE(block, nullptr);
    const size_t prefix = std::min(from, to);
    fill(block, from, from);
    fill(block, prefix, to);
    block = static_cast<char*>(Api::realloc(block, to));
    ASSERT_NE(block, nullptr) << from << " to " << to;
    ASSERT_GE(Api::malloc_usable_size(block), to);
    ASSERT_TRUE(holds(block, prefix, to)) << from << " to " << to;
    fill(block, to, ~to);
    ASSERT_TRUE(holds(block, to, ~to));
    Api::free(block);
    count_cases();
  }
};
TYPED_TEST_SUITE(Resize, ApisUnderTest);

TYPED_TEST(Resize, EveryPairOfSizesUpTo256KiBKeepsThePrefix) {
  const std::vector<size_t> sizes = ladder(256 * kKiB);
  for (const size_t from : sizes) {
    for (const size_t to : sizes) {
      this->check(from, to);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(Resize, EveryPowerOfTwoUpTo64MiBKeepsThePrefix) {
  std::vector<size_t> sizes;
  for (size_t size = 16; size <= kLargest; size *= 2) sizes.push_back(size);
  for (const size_t from : sizes) {
    for (const size_t to : sizes) {
      if (from > 4 * kMiB && to > 4 * kMiB && from > to) continue;
      this->check(from, to + 1 > kLargest ? to : to + 1);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(Resize, ByteByByteGrowthAndShrinkKeepsEveryByte) {
  constexpr size_t kTop = 40'000;
  auto* block = static_cast<unsigned char*>(TypeParam::malloc(1));
  size_t wrong = 0;
  for (size_t size = 1; size < kTop; ++size) {
    block = static_cast<unsigned char*>(TypeParam::realloc(block, size));
    ASSERT_NE(block, nullptr);
    block[size - 1] = static_cast<unsigned char>(size * 7);
    wrong += block[size / 2] != static_cast<unsigned char>((size / 2 + 1) * 7) ? 1 : 0;
    count_cases();
  }
  for (size_t size = kTop - 1; size >= 1; --size) {
    block = static_cast<unsigned char*>(TypeParam::realloc(block, size));
    wrong += block[size - 1] != static_cast<unsigned char>(size * 7) ? 1 : 0;
    count_cases();
  }
  EXPECT_EQ(wrong, 0u);
  TypeParam::free(block);
}

TYPED_TEST(Resize, AThousandGrowingVectorsSideBySide) {
  constexpr size_t kVectors = 1000;
  std::vector<char*> vectors(kVectors, nullptr);
  for (size_t size = 24; size < 100'000; size = size * 3 / 2 + 1) {
    for (size_t i = 0; i < kVectors; ++i) {
      const size_t old = size == 24 ? 0 : (size - 1) * 2 / 3;
      vectors[i] = static_cast<char*>(TypeParam::realloc(vectors[i], size));
      ASSERT_NE(vectors[i], nullptr);
      if (old >= 8) {
        ASSERT_TRUE(range_holds(vectors[i], 0, old & ~size_t{7}, i)) << i << " at " << size;
      }
      fill_range(vectors[i], 0, size, i);
      count_cases();
    }
  }
  for (char* block : vectors) TypeParam::free(block);
}

TYPED_TEST(Resize, NullIsMalloc) {
  for (const size_t size : ladder(kMiB)) {
    void* block = TypeParam::realloc(nullptr, size);
    ASSERT_NE(block, nullptr);
    fill(block, size, size);
    EXPECT_TRUE(holds(block, size, size));
    TypeParam::free(block);
    count_cases();
  }
}

TYPED_TEST(Resize, ZeroFreesAndReturnsNull) {
  for (const size_t size : {size_t{1}, size_t{200}, 40 * kKiB, 2 * kMiB}) {
    const auto before = TypeParam::mallinfo2();
    for (int i = 0; i < 200; ++i) {
      errno = 12345;
      EXPECT_EQ(TypeParam::realloc(TypeParam::malloc(size), 0), nullptr);
      EXPECT_EQ(TypeParam::reallocarray(TypeParam::malloc(size), 0, 8), nullptr);
      EXPECT_EQ(TypeParam::reallocarray(TypeParam::malloc(size), 8, 0), nullptr);
      EXPECT_EQ(errno, 12345);
      count_cases(3);
    }
    const auto after = TypeParam::mallinfo2();
    EXPECT_LE(after.uordblks + after.hblkhd, before.uordblks + before.hblkhd + 20 * size + kMiB)
        << size;
  }
}

TYPED_TEST(Resize, ReallocarrayRefusesOverflowAndKeepsTheBlock) {
  const size_t half = size_t{1} << 32;
  const size_t pairs[][2] = {
      {half, half}, {SIZE_MAX, 2}, {2, SIZE_MAX}, {SIZE_MAX / 3, 4}, {SIZE_MAX / 16 + 1, 16}};
  auto* block = static_cast<char*>(TypeParam::reallocarray(nullptr, 25, 4));
  fill(block, 100, 3);
  for (const auto& pair : pairs) {
    errno = 0;
    EXPECT_EQ(TypeParam::reallocarray(block, pair[0], pair[1]), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_TRUE(holds(block, 100, 3));
    count_cases();
  }
  block = static_cast<char*>(TypeParam::reallocarray(block, 1000, 8));
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(range_holds(block, 0, 96, 3));
  TypeParam::free(block);
}

TYPED_TEST(Resize, FailureKeepsBlocksOfEverySize) {
  for (const size_t size : ladder(kMiB)) {
    void* block = TypeParam::malloc(size);
    fill(block, size, size);
    for (const size_t refused : {size_t{PTRDIFF_MAX}, SIZE_MAX, size_t{1} << 60}) {
      errno = 0;
      EXPECT_EQ(TypeParam::realloc(block, refused), nullptr);
      EXPECT_EQ(errno, ENOMEM);
      EXPECT_TRUE(holds(block, size, size)) << size;
      count_cases();
    }
    TypeParam::free(block);
  }
}

// Callocated blocks that grow have only their prefix defined; a calloc after that must still be
// zero.
TYPED_TEST(Resize, CallocAfterShrinkingIsZero) {
  for (const size_t size : {size_t{64}, 4 * kKiB, 60 * kKiB, 300 * kKiB, 8 * kMiB}) {
    for (int round = 0; round < 10; ++round) {
      auto* block = static_cast<char*>(TypeParam::calloc(1, size));
      memset(block, 0x5a, size);
      block = static_cast<char*>(TypeParam::realloc(block, size / 4));
      void* fresh = TypeParam::calloc(size / 2, 1);
      ASSERT_NE(fresh, nullptr);
      EXPECT_TRUE(is_zero(fresh, size / 2)) << size;
      memset(fresh, 0x5a, size / 2);
      TypeParam::free(block);
      TypeParam::free(fresh);
      count_cases();
    }
  }
}

}  // namespace
}  // namespace near_test

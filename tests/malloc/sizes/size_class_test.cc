// Every size to 32 KiB, every class, every alignment.
#include "sizes/size_class.h"

#include <gtest/gtest.h>

#include "support/cases.h"

namespace near_test {
namespace {

using near::kClasses;
using near::kMediumMax;
using near::kSizeClasses;
using near::SizeClass;

TEST(SizeClass, TheSmallestThatFitsServesARequest) {
  for (size_t size = 0; size <= kMediumMax; size++) {
    const unsigned index = near::class_of(size);
    ASSERT_LT(index, kClasses);
    ASSERT_GE(kSizeClasses[index].size, size);
    if (index > 0) {
      ASSERT_LT(kSizeClasses[index - 1].size, size);
    }
    // The waste inside a block is less than 16 bytes, or than an eighth of the request.
    if (size > 0) {
      ASSERT_LT(kSizeClasses[index].size - size, near::max_of(16, size / 8 + 1)) << size;
    }
    count_cases();
  }
}

TEST(SizeClass, TheTableAgreesWithTheArithmetic) {
  for (size_t size = 129; size <= near::kSmallMax; size++) {
    ASSERT_EQ(near::kClassOfSmall[size], near::class_of_computed(size));
    count_cases();
  }
}

TEST(SizeClass, SpansWasteLittleAndAreWorthReusingInTime) {
  for (const SizeClass& shape : kSizeClasses) {
    const size_t bytes = shape.slices * near::kSliceSize;
    const size_t used = size_t{shape.capacity} * shape.size;
    ASSERT_LE(used, bytes);
    ASSERT_LE((bytes - used) * 28, bytes) << shape.size;
    ASSERT_LT(bytes - used, shape.size) << shape.size;
    ASSERT_GE(shape.reuse_at, 1);
    ASSERT_EQ(shape.reuse_at, near::max_of(1, shape.capacity / (shape.capacity < 32 ? 16 : 8)));
    ASSERT_EQ(shape.size % near::kBlockAlign, 0u);
    count_cases();
  }
}

TEST(SizeClass, TheReciprocalTellsStartsOfBlocksFromTheRest) {
  for (const SizeClass& shape : kSizeClasses) {
    for (uint32_t offset = 0; offset < shape.slices * near::kSliceSize; offset++) {
      const bool start = offset % shape.size == 0;
      ASSERT_EQ(near::starts_block(uint64_t{offset}, shape.exact), start)
          << shape.size << " at " << offset;
      if (offset >= near::kSliceSize) continue;
      ASSERT_EQ(near::starts_block(offset, shape.reciprocal), start)
          << shape.size << " at " << offset;
    }
    count_cases();
  }
}

TEST(SizeClass, AnAlignedRequestGetsTheFirstClassOfMultiples) {
  for (size_t alignment = 16; alignment <= kMediumMax; alignment *= 2) {
    for (size_t size = 0; size <= kMediumMax; size += size < 2048 ? 1 : 61) {
      const unsigned index = near::class_of_aligned(size, alignment);
      for (unsigned i = near::class_of(size); i < index; i++) {
        ASSERT_NE(kSizeClasses[i].size % alignment, 0u);
      }
      if (index < kClasses) {
        ASSERT_EQ(kSizeClasses[index].size % alignment, 0u);
        ASSERT_GE(kSizeClasses[index].size, size);
      }
      count_cases();
    }
    ASSERT_LT(near::class_of_aligned(alignment, alignment), kClasses) << alignment;
  }
}

}  // namespace
}  // namespace near_test

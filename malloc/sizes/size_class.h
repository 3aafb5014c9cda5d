// Size classes: which block size serves a request, and how long the spans of such blocks are.
//
// The sizes are 16, 32, …, 128, and then eight per doubling up to 32 KiB, so a block above 128
// bytes is at most an eighth larger than the request; at most a quarter while a heap joins pairs of
// classes (heap/class_table.h). A byte table gives the class of a small request (up to 1 KiB),
// because that takes the fewest instructions; arithmetic gives that of a medium one. A larger
// request gets a large block: whole slices.
// Invariants (asserted below): sizes ascend; size(class_of(n)) >= n, and the class before is too
// small; capacity * size <= span bytes, and spans are dense, except the short spans of a heap that
// has few of a class.
// To change the classes: change kSmallClasses and kClasses, class_size and class_of_computed
// together, and span lengths where the assertions ask for it; then size_class_test.cc and decision
// 0003.
// Thread-safety: any thread; everything is constant.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bits.h"

namespace near {

inline constexpr size_t kSliceShift = 16;
inline constexpr size_t kSliceSize = size_t{1} << kSliceShift;  // 64 KiB
inline constexpr size_t kSmallMax = 1024;
inline constexpr size_t kMediumMax = 32 * kKiB;
inline constexpr unsigned kSmallClasses = 32;
inline constexpr unsigned kClasses = 72;
// The classes whose spans have many blocks, 32 or more: up to 2 KiB.
inline constexpr unsigned kCrowdedClasses = 40;
inline constexpr size_t kBlockAlign = 16;

struct SizeClass {
  uint32_t size;  // bytes of a block
  uint32_t
      reciprocal;     // ceil(2^32 / size): starts_block in 32 bits, for offsets in the first slice
  uint64_t exact;     // ceil(2^64 / size): starts_block in 64 bits, for any offset in a span
  uint16_t capacity;  // blocks of a span
  // free blocks that file a span as one to allocate from again: an eighth if it has many, else a
  // sixteenth, at least one
  uint16_t reuse_at;
  uint8_t slices;  // slices of a span

  // True if a span that is not filed has half as many free blocks as one that is, or more. Where a
  // heap has no other, that is worth more than another span.
  constexpr bool is_worth_a_try(uint32_t freed) const { return 2 * freed >= reuse_at; }
};

constexpr bool is_crowded(unsigned size_class) { return size_class < kCrowdedClasses; }

constexpr uint32_t class_size(unsigned index) {
  if (index < 8) return static_cast<uint32_t>(16 * (index + 1));
  const unsigned doubling = (index - 8) / 8;
  const unsigned eighth = (index - 8) % 8;
  return static_cast<uint32_t>((size_t{128} << doubling) / 8 * (9 + eighth));
}

// True if at most 1 part in 28 of a run of slices is waste: so little that huge pages may make it
// resident.
constexpr bool is_dense(size_t waste, size_t slices) {
  constexpr size_t kParts = 28;
  return waste * kParts <= slices * kSliceSize;
}

// A power of two, so that spans fill a chunk: the smallest with little waste, and with enough
// blocks that a span seldom comes or goes.
constexpr unsigned span_slices(uint32_t size) {
  const size_t blocks = size <= 8 * kKiB ? 8 : 16;
  unsigned slices = 1;
  while (slices * kSliceSize / size < blocks || !is_dense(slices * kSliceSize % size, slices)) {
    slices *= 2;
  }
  return slices;
}

// The length of a heap's first spans of a class: room for four blocks. Where a heap has few blocks
// of each size, what matters is not the waste behind the last block but that a span holds few
// blocks that are not live.
constexpr unsigned short_span_slices(uint32_t size) {
  return static_cast<unsigned>(div_up(4 * size_t{size}, kSliceSize));
}

constexpr SizeClass make_size_class(unsigned index, unsigned (*slices_of)(uint32_t size)) {
  const uint32_t size = class_size(index);
  const unsigned slices = slices_of(size);
  const size_t capacity = slices * kSliceSize / size;
  return {size,
          static_cast<uint32_t>(div_up(size_t{1} << 32, size)),
          UINT64_MAX / size + 1,
          static_cast<uint16_t>(capacity),
          static_cast<uint16_t>(max_of(capacity / (is_crowded(index) ? 8 : 16), 1)),
          static_cast<uint8_t>(slices)};
}

constexpr std::array<SizeClass, kClasses> make_size_classes(unsigned (*slices_of)(uint32_t size)) {
  std::array<SizeClass, kClasses> classes{};
  for (unsigned i = 0; i < kClasses; i++) classes[i] = make_size_class(i, slices_of);
  return classes;
}

inline constexpr std::array<SizeClass, kClasses> kSizeClasses = make_size_classes(span_slices);
// The same classes with short spans.
inline constexpr std::array<SizeClass, kClasses> kShortSpans = make_size_classes(short_span_slices);

// The class of a span that is so long.
constexpr const SizeClass& shape_of(unsigned size_class, uint32_t slices) {
  const SizeClass& shape = kSizeClasses[size_class];
  return slices == shape.slices ? shape : kShortSpans[size_class];
}

// The class of a request above 128 bytes: the leading bit of size - 1 gives the doubling, the three
// bits below it the eighth.
constexpr unsigned class_of_computed(size_t size) {
  const size_t last = size - 1;
  const unsigned log = log2_floor(last);
  return 8 + (log - 7) * 8 + static_cast<unsigned>(last >> (log - 3) & 7);
}

constexpr std::array<uint8_t, kSmallMax + 1> make_class_table() {
  std::array<uint8_t, kSmallMax + 1> table{};
  for (size_t size = 1; size <= kSmallMax; size++) {
    table[size] = static_cast<uint8_t>(size <= 128 ? (size - 1) / 16 : class_of_computed(size));
  }
  return table;  // class 0 serves a request of 0
}

inline constexpr std::array<uint8_t, kSmallMax + 1> kClassOfSmall = make_class_table();

// The class of a request of up to kMediumMax bytes.
constexpr unsigned class_of(size_t size) {
  return size <= kSmallMax ? kClassOfSmall[size] : class_of_computed(size);
}

// The smallest class for `size` whose block size is a multiple of `alignment` (a power of two), or
// kClasses.
constexpr unsigned class_of_aligned(size_t size, size_t alignment) {
  unsigned index = class_of(size);
  while (index < kClasses && kSizeClasses[index].size % alignment != 0) index++;
  return index;
}

// The class that serves `size` bytes at a multiple of `alignment` (a power of two); kClasses if
// that takes a large block.
constexpr unsigned class_for(size_t size, size_t alignment) {
  if (size > kMediumMax || alignment > kMediumMax) return kClasses;
  return alignment <= kBlockAlign ? class_of(size) : class_of_aligned(size, alignment);
}

// True if a block starts at `offset`: the fractional part of offset / size is 0. [Lemire19]
template <typename Word>
constexpr bool starts_block(Word offset, Word reciprocal) {
  return offset * reciprocal < reciprocal;
}

constexpr bool size_classes_hold() {
  for (unsigned i = 0; i < kClasses; i++) {
    const SizeClass& c = kSizeClasses[i];
    const SizeClass& brief = kShortSpans[i];
    const size_t span = c.slices * kSliceSize;
    if ((c.capacity >= 32) != is_crowded(i)) return false;
    if (c.size % kBlockAlign != 0 || (i > 0 && c.size <= kSizeClasses[i - 1].size)) return false;
    if (c.capacity * size_t{c.size} > span) return false;
    if (!is_dense(span - c.capacity * size_t{c.size}, c.slices)) return false;
    if (brief.slices > c.slices || brief.capacity * size_t{c.size} > brief.slices * kSliceSize)
      return false;
    for (uint64_t block = 0; block < c.capacity; block++) {
      const uint64_t start = block * c.size;
      if (start < kSliceSize && !starts_block(static_cast<uint32_t>(start), c.reciprocal))
        return false;
      if (!starts_block(start, c.exact) ||
          starts_block(start + kBlockAlign, c.exact) != (c.size == kBlockAlign))
        return false;
    }
    if (class_of(c.size) != i || (i + 1 < kClasses && class_of(c.size + 1) != i + 1)) return false;
  }
  return kSizeClasses[kSmallClasses - 1].size == kSmallMax &&
         kSizeClasses[kClasses - 1].size == kMediumMax;
}
static_assert(size_classes_hold());

}  // namespace near

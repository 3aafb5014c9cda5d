// Size classes and the real spans that hold their blocks.
//
//   class 0        no blocks: huge objects, and requests of 0 bytes until the slow path
//   class 1..16    blocks of 16, 32, ..., 256 bytes, all in real spans of 32 KiB
//   class 17..28   blocks of 512 bytes, 1 KiB, ..., 1 MiB
// Invariant (asserted below): real_span = header + blocks * size, rounded up to whole pages of
// 4 KiB, fits a virtual span; there are seven different ones, ascending with the class.
// Thread-safety: constants. [Aigner15 §3.1]
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bits.h"

namespace near::design::scalloc {

inline constexpr size_t kLeastVirtualSpan = 2 * kMiB;  // the run's value is in settings.h
inline constexpr size_t kSpanHeader = 128;
inline constexpr unsigned kClasses = 29;
inline constexpr unsigned kFineClasses = 16;
inline constexpr size_t kFineStep = 16;
inline constexpr size_t kFineMax = kFineClasses * kFineStep;
inline constexpr size_t kLargestBlock = kMiB;
inline constexpr size_t kSmallestRealSpan = 32 * kKiB;

struct SizeClass {
  uint32_t size;             // bytes of a block
  uint32_t blocks;           // in a span
  uint32_t real_span;        // bytes
  uint32_t real_span_index;  // its index among the different real-span sizes
  uint32_t reciprocal;       // ceil(2^32 / size)
};

constexpr uint32_t blocks_of(size_t size) {
  if (size <= kFineMax) return static_cast<uint32_t>((kSmallestRealSpan - kSpanHeader) / size);
  if (size <= 2 * kKiB) return 64;
  if (size <= 8 * kKiB) return 32;
  if (size <= 64 * kKiB) return 16;
  return static_cast<uint32_t>(kMiB / size);
}

constexpr std::array<SizeClass, kClasses> make_size_classes() {
  std::array<SizeClass, kClasses> classes{};
  uint32_t index = 0;
  for (unsigned i = 1; i < kClasses; i++) {
    const size_t size = i <= kFineClasses ? i * kFineStep : kFineMax << (i - kFineClasses);
    const uint32_t blocks = blocks_of(size);
    const auto real_span = static_cast<uint32_t>(align_up(kSpanHeader + blocks * size, 4 * kKiB));
    if (i > 1 && real_span != classes[i - 1].real_span) index++;
    classes[i] = {static_cast<uint32_t>(size), blocks, real_span, index,
                  static_cast<uint32_t>(div_up(size_t{1} << 32, size))};
  }
  return classes;
}

inline constexpr std::array<SizeClass, kClasses> kSizeClasses = make_size_classes();
inline constexpr unsigned kRealSpans = kSizeClasses[kClasses - 1].real_span_index + 1;

// The class of a request of at most kLargestBlock bytes; 0 for a request of 0 bytes.
constexpr unsigned class_of(size_t size) {
  if (size <= kFineMax) return static_cast<unsigned>((size + kFineStep - 1) / kFineStep);
  return log2_floor(size - 1) + 9;
}

// The first class from that of `size` on whose blocks are aligned to `alignment`, at most
// kSpanHeader, at every place in a span.
constexpr unsigned class_of_aligned(size_t size, size_t alignment) {
  unsigned index = class_of(max_of(size, 1));
  while (kSizeClasses[index].size % alignment != 0) index++;
  return index;
}

// True if a block starts `offset` bytes after the header: the fractional part of offset / size is
// 0. This is exact, because offsets in spans of fine classes are below 2^15, and the other sizes
// are powers of two.
constexpr bool starts_block(uint32_t offset, uint32_t reciprocal) {
  return offset * reciprocal < reciprocal;
}
constexpr uint32_t block_index(uint32_t offset, uint32_t reciprocal) {
  return static_cast<uint32_t>(uint64_t{offset} * reciprocal >> 32);
}

constexpr bool size_classes_hold() {
  for (unsigned i = 1; i < kClasses; i++) {
    const SizeClass& c = kSizeClasses[i];
    if (class_of(c.size) != i || (i + 1 < kClasses && class_of(c.size + 1) != i + 1)) return false;
    if (c.real_span > kLeastVirtualSpan || c.real_span < kSmallestRealSpan) return false;
    if (i > 1 && c.real_span < kSizeClasses[i - 1].real_span) return false;
    for (uint32_t block = 0; block < c.blocks; block++) {
      const uint32_t start = block * c.size;
      if (!starts_block(start, c.reciprocal) || starts_block(start + 8, c.reciprocal)) return false;
      if (block_index(start, c.reciprocal) != block) return false;
      if (block_index(start + c.size - 1, c.reciprocal) != block) return false;
    }
  }
  return class_of(0) == 0 && kLargestBlock == kSizeClasses[kClasses - 1].size;
}
static_assert(size_classes_hold());
static_assert(kRealSpans == 7);

}  // namespace near::design::scalloc

// Size classes of small objects, and the batch: the number of objects that move at a time between a
// thread and its node.
//
// There are 23 classes: 16..128 by 16, 160..256 by 32, 512 B..512 KiB by powers of two; class 0 is
// none. Bags are aligned to their size, so an object is aligned to every power of two, up to a bag,
// that divides its class.
// Thread-safety: constants.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/compiler.h"

namespace near::design::numalloc {

inline constexpr unsigned kClasses = 24;
inline constexpr unsigned kBagShift = 15;
inline constexpr size_t kBagSize = size_t{1} << kBagShift;  // 32 KiB [Yang23 §3.1]
inline constexpr size_t kSmallLimit = 512 * kKiB;
inline constexpr size_t kBatchPage = 4 * kKiB;

inline constexpr uint32_t kClassSizes[kClasses] = {
    0,   16,  32,   48,   64,   80,   96,    112,   128,   160,    192,    224,
    256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288};

inline constexpr size_t kTableLimit = 1024;  // beyond it all classes are powers of two
inline constexpr unsigned kClassOfTwo = 5;   // class of (2^n, 2^(n+1)] minus n

constexpr auto make_class_table() {
  std::array<uint8_t, kTableLimit / 16 + 1> table{};
  uint8_t one = 1;
  for (size_t i = 0; i < table.size(); i++) {
    while (kClassSizes[one] < i * 16) one++;
    table[i] = one;
  }
  return table;
}
inline constexpr auto kClassTable = make_class_table();

// Requires: size <= kSmallLimit; 0 is served like 1.
NEAR_INLINE unsigned class_of(size_t size) {
  if (likely(size <= kTableLimit)) return kClassTable[(size + 15) / 16];
  return log2_floor(size - 1) + kClassOfTwo;
}

// A page of objects [Yang23 §4.3, "each thread will get a page of objects"; the authors' numbers].
constexpr uint32_t page_batch(unsigned size_class) {
  const size_t size = kClassSizes[size_class];
  if (size < kBatchPage) return static_cast<uint32_t>(kBatchPage / size);
  return size < 256 * kKiB ? 2 : 1;
}

// A bag of objects [Yang23 §3.4, "currently 32KB for one bag"].
constexpr uint32_t bag_batch(unsigned size_class) {
  const size_t size = kClassSizes[size_class];
  return size < kBagSize ? static_cast<uint32_t>(kBagSize / size) : 1;
}

}  // namespace near::design::numalloc

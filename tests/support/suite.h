// What the typed tests share: the typed fixture, sizes worth trying, and blocks that clean up after
// themselves.
// Invariant: every case a loop runs is counted; a failed case names its sizes.
// Thread-safety: only the thread that runs the test uses it.
#pragma once

#include <gtest/gtest.h>
#include NEAR_TEST_API_HEADER

#include <cerrno>
#include <cstdint>
#include <vector>

#include "support/cases.h"
#include "support/near_extras.h"
#include "support/pattern.h"

namespace near_test {

inline constexpr size_t kKiB = size_t{1} << 10;
inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kLargest = 64 * kMiB;

// Every test ends by checking the allocator's own invariants, where the allocator can report them.
template <typename Api>
class AllocatorTest : public testing::Test {
 protected:
  static_assert(MallocApi<Api>);
  void TearDown() override { EXPECT_EQ(violations(), 0u); }
};

// 2^k - 1, 2^k, 2^k + 1 and 1.5 * 2^k, from 1 up to `largest`.
inline std::vector<size_t> ladder(size_t largest) {
  std::vector<size_t> sizes{1};
  for (size_t power = 2; power <= largest; power *= 2) {
    for (const size_t size : {power - 1, power, power + 1, power + power / 2}) {
      if (size > sizes.back() && size <= largest) sizes.push_back(size);
    }
  }
  return sizes;
}

// Sizes that no allocator can serve, rounding or header included.
inline std::vector<size_t> impossible_sizes() {
  std::vector<size_t> sizes;
  for (const size_t below : {0, 1, 15, 16, 17, 63, 64, 4095, 4096, 4097, 65535, 65536, 1 << 21}) {
    sizes.push_back(SIZE_MAX - below);
  }
  for (const size_t above : {1, 2, 16, 4096, 65536}) sizes.push_back(size_t{PTRDIFF_MAX} + above);
  sizes.push_back(SIZE_MAX / 4 * 3);
  return sizes;
}

inline uintptr_t address(const void* block) { return reinterpret_cast<uintptr_t>(block); }

}  // namespace near_test

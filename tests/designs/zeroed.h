// Large zeroed blocks of a design: unused memory is already zero.
// Thread-safety: only the thread that runs the test uses it, alone in its process.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "support/cases.h"
#include "support/proc_self.h"

namespace near_test {

template <typename Design>
void expect_zeroed_blocks_to_be_fresh() {
  constexpr size_t kMib = size_t{1} << 20;
  Design::deallocate(Design::allocate_zeroed(5000));
  const size_t before = resident_bytes();
  char* block = static_cast<char*>(Design::allocate_zeroed(256 * kMib));
  ASSERT_NE(block, nullptr);
  EXPECT_LT(resident_bytes(), before + 32 * kMib) << "zeroes were written";
  memset(block, 0x5a, 3 * kMib);
  Design::deallocate(block);
  block = static_cast<char*>(Design::allocate_zeroed(2 * kMib));
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(std::count(block, block + 2 * kMib, 0), static_cast<ptrdiff_t>(2 * kMib));
  Design::deallocate(block);
  count_cases(2);
}

}  // namespace near_test

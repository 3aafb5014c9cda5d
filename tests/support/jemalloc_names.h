// The flags of jemalloc's functions, and calls of mallctl, for tests.
// Thread-safety: any thread.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>

#include "support/jemalloc_functions.h"

namespace near_test {

// The flags of <jemalloc/jemalloc.h>.
constexpr int lg_align_flag(int shift) { return shift; }
inline constexpr int kZeroFlag = 0x40;
constexpr int tcache_flag(unsigned number) { return static_cast<int>((number + 2) << 8); }
inline constexpr int kNoTcacheFlag = 1 << 8;
constexpr int arena_flag(unsigned number) { return static_cast<int>((number + 1) << 20); }

// The value of a name. The test fails if there is no value of this type.
template <typename Value>
Value control(const char* name) {
  Value value{};
  size_t length = sizeof value;
  EXPECT_EQ(mallctl(name, &value, &length, nullptr, 0), 0) << name;
  EXPECT_EQ(length, sizeof value) << name;
  return value;
}

template <typename Value>
int set_control(const char* name, Value value) {
  return mallctl(name, nullptr, nullptr, &value, sizeof value);
}

inline int command(const char* name) { return mallctl(name, nullptr, nullptr, nullptr, 0); }

}  // namespace near_test

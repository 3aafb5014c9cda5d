// The functions of jemalloc, null in a process without them. Programs recognise jemalloc by such
// declarations.
// Thread-safety: any thread.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>

#define NEAR_TEST_WEAK noexcept __attribute__((weak))

extern "C" {
int mallctl(const char*, void*, size_t*, void*, size_t) NEAR_TEST_WEAK;
int mallctlnametomib(const char*, size_t*, size_t*) NEAR_TEST_WEAK;
int mallctlbymib(const size_t*, size_t, void*, size_t*, void*, size_t) NEAR_TEST_WEAK;
void malloc_stats_print(void (*)(void*, const char*), void*, const char*) NEAR_TEST_WEAK;
void* mallocx(size_t, int) NEAR_TEST_WEAK;
void* rallocx(void*, size_t, int) NEAR_TEST_WEAK;
size_t xallocx(void*, size_t, size_t, int) NEAR_TEST_WEAK;
size_t sallocx(const void*, int) NEAR_TEST_WEAK;
void dallocx(void*, int) NEAR_TEST_WEAK;
void sdallocx(void*, size_t, int) NEAR_TEST_WEAK;
size_t nallocx(size_t, int) NEAR_TEST_WEAK;
}

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

// The provider behind the standard names: the library this program is linked to or preloaded with.
// Invariant: a name that the C library may lack is weak, hence null where the process has none.
// Who may touch it: read by any thread, written by none.
#pragma once

#include <gtest/gtest.h>

#include "support/malloc_api.h"

extern "C" {
void free_sized(void* block, size_t size) noexcept __attribute__((weak));
void free_aligned_sized(void* block, size_t alignment, size_t size) noexcept __attribute__((weak));
}

namespace near_test {

struct StandardNames {
  static constexpr const char* kName = "standard names";
  NEAR_TEST_API_MEMBERS();
};
static_assert(MallocApi<StandardNames>);

using ApisUnderTest = testing::Types<StandardNames>;

}  // namespace near_test

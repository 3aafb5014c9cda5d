// The provider behind the near_* names, which override nothing.
// Thread-safety: any thread may read it; no thread writes it.
#pragma once

#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include "support/malloc_api.h"

namespace near_test {

struct NearTwins {
  static constexpr const char* kName = "near_*";
  NEAR_TEST_API_MEMBERS(near_);
  static inline void (*volatile free_sized)(void*, size_t) = near_free_sized;
  static inline void (*volatile free_aligned_sized)(void*, size_t,
                                                    size_t) = near_free_aligned_sized;
};
static_assert(MallocApi<NearTwins>);

using ApisUnderTest = testing::Types<NearTwins>;

}  // namespace near_test

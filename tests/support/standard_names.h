// The provider behind the standard names: the library this program is linked to or preloaded with.
// Invariant: a name that the C library may lack is looked up, and null where the process has none.
// Thread-safety: any thread may read it; no thread writes it.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "support/malloc_api.h"

namespace near_test {

struct StandardNames {
  static constexpr const char* kName = "standard names";
  NEAR_TEST_API_MEMBERS();
  static inline void (*volatile free_sized)(void*, size_t) =
      reinterpret_cast<void (*)(void*, size_t)>(dlsym(RTLD_DEFAULT, "free_sized"));
  static inline void (*volatile free_aligned_sized)(void*, size_t, size_t) =
      reinterpret_cast<void (*)(void*, size_t, size_t)>(dlsym(RTLD_DEFAULT, "free_aligned_sized"));
};
static_assert(MallocApi<StandardNames>);

using ApisUnderTest = testing::Types<StandardNames>;

}  // namespace near_test

// The names of all frames are those that the dynamic linker gives for each of them.
#include "profile/names.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <cstdlib>
#include <functional>
#include <set>
#include <string>

#include "profiling.h"
#include "support/cases.h"

namespace near_test {
namespace {

const char* name_by_linker(uintptr_t call) {
  Dl_info info;
  return dladdr(reinterpret_cast<const void*>(call), &info) != 0 ? info.dli_sname : nullptr;
}

int allocate_in_order(const void* a, const void* b) {
  near_free(near_malloc(100));
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

// Allocates below frames of the program, the C library and the C++ library.
void allocate_everywhere() {
  int numbers[] = {3, 1, 2, 5, 4};
  for (int round = 0; round < 20; round++) {
    qsort(numbers, 5, sizeof *numbers, allocate_in_order);
    const std::function<void(int)> deep = [&](int depth) {
      near_free(near_malloc(2000));
      if (depth > 0) deep(depth - 1);
    };
    deep(10);
  }
}

TEST(ProfileNames, AreTheDynamicLinkers) {
  const Profiling profiling(1);
  ASSERT_TRUE(profiling.started());
  allocate_everywhere();
  const near::profile::Names names;
  near::profile::SiteCopy copy;
  std::set<std::string> found;
  for (uint32_t i = 0; near::profile::copy_site(i, copy); i++) {
    for (unsigned frame = 0; frame < copy.site.depth; frame++) {
      const uintptr_t call = copy.frames[frame] - 1;
      const char* expected = name_by_linker(call);
      EXPECT_STREQ(names.of(call), expected);
      if (expected != nullptr) found.insert(expected);
      count_cases();
    }
  }
  EXPECT_TRUE(found.contains("qsort_r") || found.contains("qsort")) << "the C library has names";
  EXPECT_GE(found.size(), 2u);
}

TEST(ProfileNames, CodeThatIsInNoSiteHasNone) {
  const Profiling profiling(1 << 30);
  const near::profile::Names names;
  const auto call = reinterpret_cast<uintptr_t>(&qsort) + 1;
  EXPECT_NE(name_by_linker(call), nullptr);
  EXPECT_EQ(names.of(call), nullptr);
  EXPECT_EQ(names.of(1), nullptr);
  count_cases(2);
}

}  // namespace
}  // namespace near_test

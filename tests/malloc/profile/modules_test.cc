// The list of code that is loaded: what has no room is counted.
#include "profile/modules.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "support/cases.h"

namespace near_test {
namespace {

using near::profile::Modules;

TEST(ProfileModules, SegmentsWithoutRoomAreCounted) {
  const Modules all;
  ASSERT_GE(all.count(), 2u) << "the program, and a library or the kernel's page";
  EXPECT_EQ(all.dropped(), 0u);
  for (size_t most = 0; most < all.count(); most++) {
    const Modules some(most);
    EXPECT_EQ(some.count(), most);
    EXPECT_EQ(some.dropped(), all.count() - most);
    for (size_t i = 0; i < most; i++) EXPECT_EQ(some[i].start, all[i].start);
    count_cases();
  }
}

TEST(ProfileModules, TheModuleOfAnAddressIsFound) {
  const Modules all;
  const auto here = reinterpret_cast<uintptr_t>(&Modules::print_build_id);
  const size_t index = all.find(here);
  ASSERT_LT(index, all.count());
  EXPECT_GE(here, all[index].start);
  EXPECT_LT(here, all[index].end);
  EXPECT_EQ(all.find(1), all.count());
  count_cases();
}

}  // namespace
}  // namespace near_test

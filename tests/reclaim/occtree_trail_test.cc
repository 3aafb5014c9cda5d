// The trail of a walk through an occtree: last in, first out, and what happens when it is full.
#include "nearmalloc/reclaim/impl/occtree_trail.hpp"

#include <gtest/gtest.h>

#include <array>

#include "support/cases.h"

namespace near_test {
namespace {

TEST(OcctreeTrail, ForgetsTheFarthestWhenItIsFull) {
  near::reclaim::impl::occ_trail<const int> trail;
  const std::array<int, 40> nodes{};
  for (size_t i = 0; i < nodes.size(); i++) trail.push({&nodes[i], i});
  for (size_t i = nodes.size(); i-- > 8;) {
    ASSERT_FALSE(trail.is_empty());
    const auto [node, version] = trail.pop();
    ASSERT_EQ(node, &nodes[i]);
    ASSERT_EQ(version, i);
    count_cases();
  }
  EXPECT_TRUE(trail.is_empty());
}

}  // namespace
}  // namespace near_test

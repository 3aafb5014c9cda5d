// Stacks of functions that sign their return addresses with the first key, A, of aarch64.
#include "signed_stack.h"

#include <gtest/gtest.h>

namespace near_test {
namespace {

TEST(ProfileSignedStack, ByTables) { expect_signed_stack(false); }

TEST(ProfileSignedStack, ByFramePointers) { expect_signed_stack(true); }

}  // namespace
}  // namespace near_test

// Stacks of functions that sign their return addresses with the other key, B, of aarch64. Their
// unwind tables say so.
#include <gtest/gtest.h>

#include "signed_stack.h"

namespace near_test {
namespace {

TEST(ProfileSignedStackOfBKey, ByTables) { expect_signed_stack(false); }

TEST(ProfileSignedStackOfBKey, ByFramePointers) { expect_signed_stack(true); }

}  // namespace
}  // namespace near_test

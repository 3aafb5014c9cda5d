// A window alone: which parts of it are mapped when, and where it ends.
#include "node/window.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/bits.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/region_room.h"

namespace near_test {
namespace {

using near::Window;

constexpr uint32_t kWindowChunks = 1 << 12;  // 8 GiB

class WindowTest : public testing::TestWithParam<size_t> {
 protected:
  WindowTest() {
    const size_t bytes = near::align_up(Window::bytes_for(kWindowChunks, 1), near::kChunkSize);
    window_.plan(place_for(bytes), kWindowChunks, 1, false);
  }
  ~WindowTest() override {
    fake_os::fail_none();
    window_.vanish(0, table_end_);
    EXPECT_EQ(fake_os::reserved_bytes(), reserved_before_) << "something of it is left";
  }

  uint32_t give(uint32_t least, uint32_t wished) {
    const auto end = static_cast<uint32_t>(near::min_of(wished, window_.left())) + window_.end();
    return window_.extend_table({0, 0, table_end_}, end) ? window_.give(least, wished, first_) : 0;
  }

  fake_os::PageSize page_size_{GetParam()};
  size_t reserved_before_ = fake_os::reserved_bytes();
  Window window_;
  uint32_t first_ = 0;  // set by give()
  uint32_t table_end_ = 0;
};

TEST_P(WindowTest, NothingIsMappedBeforeItIsNeeded) {
  EXPECT_EQ(fake_os::reserved_bytes(), reserved_before_);
  EXPECT_FALSE(window_.contains(window_.base()));
  EXPECT_EQ(give(1, 16), 16u);
  // Descriptors, for as many again ahead, and the table of chunks, each rounded up.
  const size_t needed = 2 * 16 * (near::kChunkSlices * sizeof(near::Span) + sizeof(near::Chunk));
  EXPECT_LE(fake_os::reserved_bytes() - reserved_before_, needed + 128 * near::kKiB);
  EXPECT_TRUE(fake_os::is_committed(&window_.spans()[16 * near::kChunkSlices - 1]));
  EXPECT_TRUE(window_.contains(window_.base() + 16 * near::kChunkSize - 1));
  EXPECT_FALSE(window_.contains(window_.base() + 16 * near::kChunkSize));
  EXPECT_FALSE(fake_os::is_committed(window_.base())) << "that is its region's to map";
  count_cases();
}

TEST_P(WindowTest, DescriptorsAreMappedAheadUnlessThatIsRefused) {
  give(1, 16);  // maps for 32 chunks
  fake_os::fail(OsCall::map, 1, true);
  EXPECT_EQ(give(16, 16), 16u) << "mapped before";
  EXPECT_EQ(give(16, 16), 0u);
  fake_os::fail_none();
  fake_os::fail(OsCall::map, 1, false);
  EXPECT_EQ(give(16, 16), 16u) << "mapped as it is needed";
  fake_os::fail(OsCall::map, 1, true);
  EXPECT_EQ(give(16, 16), 0u) << "without more";
  count_cases(4);
}

// Another thread may meet a foreign mapping while chunks are given away.
TEST_P(WindowTest, AWindowThatIsOccupiedGivesNothing) {
  give(1, 16);
  window_.end_here();
  EXPECT_EQ(give(1, 16), 0u);
  EXPECT_EQ(window_.described_bytes(), 16 * near::kChunkSize);
  count_cases();
}

// A search in the tree of runs reads this far.
TEST_P(WindowTest, ATableReachesTheNextPowerOfTwo) {
  for (const uint32_t wished : {500u, 100u, 1'000u, 2'000u}) {
    ASSERT_EQ(give(wished, wished), wished);
    EXPECT_TRUE(fake_os::is_committed(&window_.table(0)[std::bit_ceil(window_.end()) - 1]));
    count_cases();
  }
}

TEST_P(WindowTest, ChunksAreGivenFromTheLowestUntilNoneIsLeft) {
  EXPECT_EQ(give(1, 10), 10u);
  EXPECT_EQ(first_, 0u);
  EXPECT_EQ(give(1, kWindowChunks - 15), kWindowChunks - 15);
  EXPECT_EQ(first_, 10u);
  EXPECT_EQ(give(6, 6), 0u) << "five are left";
  EXPECT_EQ(give(2, 6), 5u);
  EXPECT_EQ(first_, kWindowChunks - 5);
  EXPECT_EQ(give(0, 1), 0u);
  count_cases(4);
}

TEST_P(WindowTest, ARefusedMappingCostsNoChunk) {
  give(1, 16);
  for (const uint64_t nth : {1u, 2u}) {  // descriptors, the table
    fake_os::fail(OsCall::map, nth, true);
    EXPECT_EQ(give(2'000, 2'000), 0u);
    fake_os::fail_none();
    EXPECT_EQ(window_.end(), 16u);
    EXPECT_EQ(window_.described_bytes(), 16 * near::kChunkSize);
    count_cases();
  }
  EXPECT_FALSE(window_.occupied());
  EXPECT_EQ(give(2'000, 2'000), 2'000u);
  EXPECT_EQ(first_, 16u);
}

TEST_P(WindowTest, EndsWhereAnotherMappingIs) {
  give(1, 16);
  fake_os::occupy_next();
  EXPECT_EQ(give(1, 100), 0u);
  EXPECT_TRUE(window_.occupied());
  EXPECT_EQ(window_.left(), 0u);
  EXPECT_EQ(give(1, 1), 0u);
  EXPECT_TRUE(window_.contains(window_.base())) << "what was given away stays";
  count_cases(3);
}

INSTANTIATE_TEST_SUITE_P(Pages, WindowTest, testing::ValuesIn(kPageSizes));

}  // namespace
}  // namespace near_test

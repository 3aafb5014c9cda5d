// The contract of platform/os.h, tested on the implementation that this program is linked to:
// the real one and the tests' own must agree.
#include "platform/os.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/bits.h"
#include "support/cases.h"
#include "support/pattern.h"

namespace near_test {
namespace {

namespace os = near::os;

class Os : public testing::Test {
 protected:
  void SetUp() override { errno = 77; }
  void TearDown() override {
    EXPECT_EQ(errno, 77);
    count_cases();
  }
};

TEST_F(Os, TheMachineHasPagesAndMemory) {
  EXPECT_TRUE(near::is_power_of_two(os::page_size()));
  EXPECT_GE(os::page_size(), size_t{4} << 10);
  EXPECT_LE(os::page_size(), size_t{64} << 10);
  EXPECT_GE(os::physical_memory(), near::kMiB);
  EXPECT_GE(os::limit(), near::kMiB);
  size_t mappings = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> mappings;
  EXPECT_EQ(os::most_mappings(), mappings);
  errno = 77;
  const bool overcommits = os::overcommits();
  const int after = errno;
  char mode = '0';
  std::ifstream("/proc/sys/vm/overcommit_memory") >> mode;
  EXPECT_EQ(overcommits, mode != '2');
  errno = after;
}

TEST_F(Os, ReservationsAreAlignedAndCanBeLarge) {
  for (size_t alignment = size_t{64} << 10; alignment <= 16 * near::kMiB; alignment *= 4) {
    void* start = os::reserve(near::kGiB, alignment);
    ASSERT_NE(start, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(start) % alignment, 0u);
    os::unreserve(start, near::kGiB);
  }
}

TEST_F(Os, AnImpossibleReservationIsRefused) {
  EXPECT_EQ(os::reserve(size_t{1} << 60, near::kMiB), nullptr);
  EXPECT_EQ(os::reserve(size_t{0} - near::kMiB, 2 * near::kMiB), nullptr);
}

TEST_F(Os, CommittedMemoryIsZeroAndAPurgeMakesItSoAgain) {
  constexpr size_t kBytes = 8 * near::kMiB;
  auto* start = static_cast<char*>(os::reserve(kBytes, near::kMiB));
  ASSERT_TRUE(os::commit(start + near::kMiB, 4 * near::kMiB));
  char* memory = start + near::kMiB;
  EXPECT_TRUE(is_zero(memory, 4 * near::kMiB));
  std::memset(memory, 1, 4 * near::kMiB);
  EXPECT_TRUE(os::purge(memory + near::kMiB, near::kMiB));
  EXPECT_TRUE(is_zero(memory + near::kMiB, near::kMiB));
  EXPECT_EQ(memory[near::kMiB - 1], 1);
  EXPECT_EQ(memory[2 * near::kMiB], 1);
  EXPECT_TRUE(os::commit(start, 8 * near::kMiB)) << "what is committed may be committed again";
  EXPECT_EQ(memory[0], 1);
  EXPECT_EQ(start[0], 0);
  os::unreserve(start, kBytes);
}

TEST_F(Os, ReadablePagesAreZeroAndCanBeCommittedLater) {
  auto* start = static_cast<char*>(os::reserve(2 * near::kMiB, near::kMiB));
  ASSERT_TRUE(os::make_readable(start, 2 * near::kMiB));
  EXPECT_TRUE(is_zero(start, 2 * near::kMiB));
  ASSERT_TRUE(os::commit(start, near::kMiB));
  start[0] = 1;
  EXPECT_EQ(start[near::kMiB], 0);
  os::unreserve(start, 2 * near::kMiB);
}

TEST_F(Os, AdviceAndBindingMayBeRefusedButKeepErrno) {
  auto* start = static_cast<char*>(os::reserve(4 * near::kMiB, 2 * near::kMiB));
  ASSERT_TRUE(os::commit(start, 4 * near::kMiB));
  os::advise_huge_pages(start, 2 * near::kMiB, true);
  os::advise_huge_pages(start, 2 * near::kMiB, false);
  os::bind(start, 4 * near::kMiB, 0, false);
  os::bind(start, 4 * near::kMiB, 0, true);
  os::bind(start, 4 * near::kMiB, 900, true);
  start[0] = 1;
  os::unreserve(start, 4 * near::kMiB);
}

// An emulator of the system may accept advice that it ignores (qemu-user does). Linux refuses to
// populate memory that is not mapped.
bool system_populates() {
  const size_t page = os::page_size();
  void* const gone = mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(gone, page);
  const bool refuses = madvise(gone, page, MADV_POPULATE_WRITE) != 0;
  errno = 77;
  return refuses;
}

TEST_F(Os, PopulatedPagesAreThereWithTheirContents) {
  if (!system_populates()) GTEST_SKIP() << "the system ignores the advice";
  const size_t bytes = 4 * near::kMiB;
  auto* start = static_cast<char*>(os::map_anywhere(bytes, os::page_size()));
  ASSERT_NE(start, nullptr);
  start[bytes / 2] = 'a';
  EXPECT_TRUE(os::populate(start, bytes));
  EXPECT_EQ(start[bytes / 2], 'a');
  for (size_t at = 0; at < bytes; at += os::page_size()) {
    unsigned char resident = 0;
    ASSERT_EQ(mincore(start + at, 1, &resident), 0);
    EXPECT_EQ(resident & 1, 1);
  }
  EXPECT_TRUE(os::unmap(start, bytes));
}

TEST_F(Os, APageIsLocatedOnceItIsTouched) {
  auto* start = static_cast<char*>(os::reserve(near::kMiB, near::kMiB));
  ASSERT_TRUE(os::commit(start, near::kMiB));
  os::advise_huge_pages(start, near::kMiB, false);
  const size_t page = os::page_size();
  start[page] = 1;
  void* pages[] = {start, start + page};
  int nodes[] = {-7, -7};
  if (os::locate(pages, 2, nodes)) {  // some sandboxes refuse it
    EXPECT_EQ(nodes[0], -1);
    EXPECT_GE(nodes[1], 0);
  }
  os::unreserve(start, near::kMiB);
}

}  // namespace
}  // namespace near_test

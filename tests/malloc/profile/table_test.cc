// The profiler's table: stacks are told apart, samples are found by address, and what has no room
// is counted.
#include "profile/table.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

#include "platform/os.h"
#include "support/cases.h"

namespace near_test {
namespace {

using near::profile::Sample;
using near::profile::Table;

TEST(ProfileTable, StacksAreToldApart) {
  Table table;
  ASSERT_TRUE(table.reset());
  const uintptr_t frames[] = {0x1000, 0x2000, 0x3000};
  const uint32_t three = table.find_site(frames, 3);
  const uint32_t two = table.find_site(frames, 2);
  const uint32_t tail = table.find_site(frames + 1, 2);
  EXPECT_NE(three, two);
  EXPECT_NE(two, tail);
  EXPECT_NE(tail, three);
  EXPECT_EQ(table.find_site(frames, 3), three);
  EXPECT_EQ(table.find_site(frames, 0), 0u);
  EXPECT_EQ(table.site(three).depth, 3u);
  EXPECT_EQ(table.address(table.address_number(table.site(three).stack + 2)), 0x3000u);
  EXPECT_EQ(table.dropped_stacks(), 0u);
  count_cases(4);
}

TEST(ProfileTable, StacksWithoutRoomAreCounted) {
  Table table;
  ASSERT_TRUE(table.reset());
  for (uintptr_t i = 1; i < Table::kSites; i++) EXPECT_EQ(table.find_site(&i, 1), i);
  const uintptr_t other = 0x123456;
  EXPECT_EQ(table.find_site(&other, 1), 0u);
  EXPECT_EQ(table.dropped_stacks(), 1u);
  EXPECT_EQ(table.site_count(), Table::kSites);
  EXPECT_TRUE(table.reset());
  EXPECT_EQ(table.site_count(), 1u);
  EXPECT_EQ(table.dropped_stacks(), 0u);
  count_cases(Table::kSites);
}

TEST(ProfileTable, AddressesWithoutRoomAreCounted) {
  Table table;
  ASSERT_TRUE(table.reset());
  uintptr_t next = 1;
  while (table.dropped_stacks() == 0) {
    uintptr_t frames[16];
    for (uintptr_t& frame : frames) frame = next++;
    table.find_site(frames, 16);
  }
  EXPECT_GT(next, Table::kAddresses / 8 * 7);
  EXPECT_LT(table.site_count(), Table::kSites);
  count_cases();
}

TEST(ProfileTable, SamplesAreFoundByTheirAddress) {
  Table table;
  ASSERT_TRUE(table.reset());
  std::vector<uintptr_t> addresses;
  for (uintptr_t at = 0x10000; table.has_room(); at += 48) {
    Sample* sample = table.add(at);
    ASSERT_NE(sample, nullptr);
    sample->size = at;
    addresses.push_back(at);
  }
  EXPECT_EQ(addresses.size(), Table::kSamples);
  EXPECT_EQ(table.add(1), nullptr);
  Sample out;
  for (size_t i = 0; i < addresses.size(); i += 2) {
    ASSERT_TRUE(table.remove(addresses[i], out));
    EXPECT_EQ(out.size, addresses[i]);
  }
  for (size_t i = 0; i < addresses.size(); i++) {
    EXPECT_EQ(table.remove(addresses[i], out), i % 2 == 1) << i;
  }
  EXPECT_EQ(table.live_samples(), 0u);
  count_cases(addresses.size());
}

TEST(ProfileTable, OnlyUsedPagesAreResident) {
  Table table;
  ASSERT_TRUE(table.reset());
  const uintptr_t frames[] = {0x1000, 0x2000, 0x3000};
  table.find_site(frames, 3);
  table.add(0x40);
  EXPECT_TRUE(table.has_room());
  const size_t page = near::os::page_size();
  std::vector<unsigned char> told(Table::kBytes / page);
  ASSERT_EQ(mincore(const_cast<void*>(table.start()), Table::kBytes, told.data()), 0);
  size_t resident = 0;
  for (const unsigned char each : told) resident += each & 1;
  // Three addresses, frames, sites, slots of the stacks' and of the block's hash, a sample.
  EXPECT_LE(resident, 3u + 1 + 1 + 2 + 1 + 1);
  EXPECT_GT(resident, 0u);
  count_cases();
}

TEST(ProfileTable, LiveSamplesOutliveAResetWithoutTheirSite) {
  Table table;
  ASSERT_TRUE(table.reset());
  const uintptr_t frame = 5;
  table.add(0x40)->site = static_cast<uint16_t>(table.find_site(&frame, 1));
  ASSERT_TRUE(table.reset());
  Sample out;
  ASSERT_TRUE(table.remove(0x40, out));
  EXPECT_EQ(out.site, near::profile::kNoSite);
  count_cases();
}

}  // namespace
}  // namespace near_test

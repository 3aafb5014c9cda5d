// The profiler's table: stacks are told apart, samples are found by address, and what has no room
// is counted.
#include "profile/table.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "platform/os.h"
#include "support/cases.h"

namespace near_test {
namespace {

using near::profile::Sample;
using near::profile::Table;

constexpr uint64_t kPeak = 2;

uint32_t find(Table& table, const uintptr_t* frames, unsigned depth) {
  return table.find_site(frames, depth, true, kPeak);
}

// A block of the site is live, so that it stays.
void make_live(Table& table, uint32_t site) { table.site(site).live = {1, 1}; }

TEST(ProfileTable, StacksAreToldApart) {
  Table table;
  ASSERT_TRUE(table.reset());
  const uintptr_t frames[] = {0x1000, 0x2000, 0x3000};
  const uint32_t three = find(table, frames, 3);
  const uint32_t two = find(table, frames, 2);
  const uint32_t tail = find(table, frames + 1, 2);
  EXPECT_NE(three, two);
  EXPECT_NE(two, tail);
  EXPECT_NE(tail, three);
  EXPECT_EQ(find(table, frames, 3), three);
  EXPECT_EQ(find(table, frames, 0), 0u);
  EXPECT_EQ(table.site(three).depth, 3u);
  EXPECT_EQ(table.address(table.address_number(table.site(three).stack + 2)), 0x3000u);
  EXPECT_EQ(table.dropped_stacks(), 0u);
  count_cases(4);
}

TEST(ProfileTable, StacksWithoutRoomAreCounted) {
  Table table;
  ASSERT_TRUE(table.reset());
  for (uintptr_t i = 1; i < Table::kSites; i++) {
    EXPECT_EQ(find(table, &i, 1), i);
    make_live(table, static_cast<uint32_t>(i));
  }
  const uintptr_t other = 0x123456;
  EXPECT_EQ(find(table, &other, 1), 0u);
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
    make_live(table, find(table, frames, 16));
  }
  EXPECT_GT(next, Table::kAddresses / 8 * 7);
  EXPECT_LT(table.site_count(), Table::kSites);
  count_cases();
}

// Adds each sum of all sites; those by heap under the heap's number.
near::profile::Site sum_of(Table& table) {
  near::profile::Site sum{};
  for (uint32_t i = 0; i < table.site_count(); i++) {
    const near::profile::Site& site = table.site(i);
    sum.samples += site.samples;
    sum.allocated += site.allocated;
    sum.variance += site.variance;
    sum.live += site.live;
    sum.live_variance += site.live_variance;
    sum.peak += site.peak_number == kPeak ? site.peak : site.live;
    sum.freed += site.freed;
    sum.remote += site.remote;
    sum.moved += site.moved;
    sum.moved_distance += site.moved_distance;
    sum.waste += site.waste;
    sum.live_waste += site.live_waste;
    sum.lifetimes += site.lifetimes;
    sum.remote_lifetimes += site.remote_lifetimes;
    sum.longest = std::max(sum.longest, site.longest);
    for (unsigned k = 0; k < 6; k++) sum.by_lifetime[k] += site.by_lifetime[k];
    for (unsigned k = 0; k < 7; k++) sum.freed_on_node[k] += site.freed_on_node[k];
    for (unsigned k = 0; k < 4; k++) {
      if (site.freed_by_heap[k] > 0) sum.freed_by_heap[site.heaps[k]] += site.freed_by_heap[k];
    }
  }
  return sum;
}

// A site for each number below kSites, with three frames of its own and one of all. Those of odd
// numbers have no live blocks. The later ones allocated more.
struct Filled {
  Table table;
  static void frames_of(uintptr_t number, uintptr_t* out) {
    for (uintptr_t i = 0; i < 3; i++) out[i] = number * 16 + i;
    out[3] = 7;
  }
  uint32_t find_number(uintptr_t number) {
    uintptr_t frames[4];
    frames_of(number, frames);
    return find(table, frames, 4);
  }
  Filled() {
    EXPECT_TRUE(table.reset());
    for (uint32_t i = 1; i < Table::kSites; i++) {
      near::profile::Site& site = table.site(find_number(i));
      site.samples = i;
      site.allocated = {i, uint64_t{100} * i};
      site.variance = site.live_variance = site.lifetimes = i;
      site.remote_lifetimes = 5.0 * i;
      site.longest = Table::kSites - i;
      site.remote = {i, i};
      site.moved = {i, uint64_t{2} * i};
      site.moved_distance = uint64_t{62} * i;
      site.waste = uint64_t{3} * i;
      site.live_waste = i;
      site.by_lifetime[i % 6] = site.freed_on_node[i % 7] = i;
      site.peak = {i, i};
      site.peak_number = i % 3;  // kPeak, and others
      site.count_heap(i % 4, i);
      (i % 2 == 0 ? site.live : site.freed) = site.allocated;
      if (i % 2 == 0) table.add(uintptr_t{i} * 64)->site = static_cast<uint16_t>(i);
    }
  }
};

TEST(ProfileTable, SitesWithoutLiveBlocksMakeRoom) {
  Filled filled;
  Table& table = filled.table;
  const near::profile::Site before = sum_of(table);
  const uint32_t added = filled.find_number(5000);
  EXPECT_EQ(added, Table::kSites - Table::kMostFolded);
  EXPECT_EQ(table.site_count(), added + 1);
  uint64_t samples = 0;
  for (uint32_t i = 1; i < Table::kSites; i++) {
    if (i % 2 == 1 && i < 2 * Table::kMostFolded) {
      samples += i;
      continue;
    }
    const uint32_t number = filled.find_number(i);
    EXPECT_EQ(table.site(number).samples, i);
    if (i % 2 == 1) continue;
    Sample sample{};
    ASSERT_TRUE(table.remove(uintptr_t{i} * 64, sample));
    EXPECT_EQ(sample.site, number);
  }
  EXPECT_EQ(table.site(0).samples, samples) << "of those that allocated least";
  EXPECT_EQ(table.dropped_stacks(), samples);
  EXPECT_EQ(table.folds(), 1u);
  const near::profile::Site after = sum_of(table);
  EXPECT_EQ(memcmp(&before, &after, sizeof before), 0) << "sums of all sites stay";
  count_cases(Table::kSites);
}

TEST(ProfileTable, NumbersStayWhileSomeoneReadsThem) {
  Filled filled;
  const uintptr_t frame = 1;
  EXPECT_EQ(filled.table.find_site(&frame, 1, false, kPeak), 0u);
  EXPECT_EQ(filled.table.folds(), 0u);
  EXPECT_NE(filled.table.find_site(&frame, 1, true, kPeak), 0u);
  count_cases(2);
}

// Such as a server's, whose requests free what they allocate.
TEST(ProfileTable, StacksComeAndGoForGood) {
  Filled filled;
  for (uintptr_t i = 1000; i < 21'000; i++) {
    ASSERT_NE(filled.find_number(i), 0u) << i;
    if (i % 1000 == 0) make_live(filled.table, filled.find_number(i));
  }
  for (uintptr_t i = 1000; i < 21'000; i += 1000) {
    EXPECT_EQ(filled.table.site(filled.find_number(i)).live.bytes, 1u) << i;
  }
  count_cases(20'000);
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
  find(table, frames, 3);
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

// Threads without a heap have one entry of the list, also if they are the first that freed.
TEST(ProfileTable, ThreadsWithoutAHeapAreToldFromHeaps) {
  using near::profile::kFreeEntry;
  using near::profile::kNoHeap;
  Table table;
  ASSERT_TRUE(table.reset());
  const uintptr_t frame = 5;
  near::profile::Site& site = table.site(find(table, &frame, 1));
  site.freed.bytes = 1000;
  site.count_heap(kNoHeap, 10);
  site.count_heap(7, 20);
  site.count_heap(kNoHeap, 30);
  EXPECT_EQ(site.heaps[0], kNoHeap);
  EXPECT_EQ(site.freed_by_heap[0], 40u);
  EXPECT_EQ(site.heaps[1], 7u);
  EXPECT_EQ(site.freed_by_heap[1], 20u);
  EXPECT_EQ(site.heaps[2], kFreeEntry);
  EXPECT_EQ(site.freed_by_others(), 940u);
  count_cases();
}

// What is not stored of a list is the rest of the whole.
TEST(ProfileTable, LongLivesAndHighNodesAreTheRest) {
  near::profile::Site site{};
  const double seconds[] = {0.0005, 0.001, 0.05, 99.0, 100.0, 5000.0};
  uint64_t blocks = 1;
  for (const double each : seconds) {
    site.count_lifetime(each, blocks, each == 99.0);
    site.freed.blocks += blocks;
    blocks *= 2;
  }
  const uint64_t expected[] = {1, 2, 4, 0, 0, 8};
  for (unsigned i = 0; i < 6; i++) EXPECT_EQ(site.by_lifetime[i], expected[i]) << i;
  EXPECT_EQ(site.lived_longest(), 16u + 32);
  constexpr double kUnit = near::profile::kBlockUnit;
  EXPECT_DOUBLE_EQ(site.remote_lifetimes, 8 * 99.0 / kUnit);
  EXPECT_DOUBLE_EQ(site.lifetimes,
                   (0.0005 + 2 * 0.001 + 4 * 0.05 + 8 * 99.0 + 16 * 100.0 + 32 * 5000.0) / kUnit);
  for (unsigned node = 0; node < 64; node++) {
    site.count_node(node, 10 + node);
    site.freed.bytes += 10 + node;
  }
  for (unsigned node = 0; node < 7; node++) EXPECT_EQ(site.freed_on_node[node], 10 + node);
  EXPECT_EQ(site.freed_on_last_nodes(), 57 * 10u + (7 + 63) * 57 / 2);
  count_cases();
}

TEST(ProfileTable, LiveSamplesOutliveAResetWithoutTheirSite) {
  Table table;
  ASSERT_TRUE(table.reset());
  const uintptr_t frame = 5;
  table.add(0x40)->site = static_cast<uint16_t>(find(table, &frame, 1));
  ASSERT_TRUE(table.reset());
  Sample out;
  ASSERT_TRUE(table.remove(0x40, out));
  EXPECT_EQ(out.site, near::profile::kNoSite);
  count_cases();
}

}  // namespace
}  // namespace near_test

// All nodes together on fake topologies with small regions: spills, added regions, binding.
// Runs with NEARMALLOC_TOPOLOGY of several nodes and NEARMALLOC_REGION_MIB.
#include "node/memory.h"

#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <algorithm>
#include <map>
#include <vector>

#include "front/thread.h"
#include "platform/options.h"
#include "support/cases.h"
#include "support/fake_os.h"

namespace near_test {
namespace {

using near::kSliceSize;
using near::nodes;
using near::Span;
using near::topology;

class MemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    near::start_library();
    ASSERT_GE(topology.count, 2u) << "NEARMALLOC_TOPOLOGY is missing";
    region_slices_ = near::reserved_bytes / topology.count / kSliceSize;
    ASSERT_LE(region_slices_, 256u) << "NEARMALLOC_REGION_MIB is missing";
  }
  void TearDown() override {
    topology.real = false;
    fake_os::fail_none();
    for (Span* span : taken_) near::node_of(*span).give(span);
    for (unsigned n = 0; n < topology.count; n++) {
      EXPECT_EQ(nodes[n].check(), 0u);
      EXPECT_EQ(nodes[n].totals().in_spans, 0u);
    }
  }

  Span* take(unsigned node, uint32_t slices, size_t alignment = kSliceSize) {
    bool zero = false;
    Span* span = near::take_slices(node, slices, zero, alignment);
    if (span != nullptr) taken_.push_back(span);
    return span;
  }
  unsigned node_of(const Span* span) { return span->region->node(); }

  // Takes all of a node's memory. Afterwards the node has nothing left.
  void exhaust(unsigned node) {
    bool zero = false;
    while (Span* span = nodes[node].take(16, zero, kSliceSize)) taken_.push_back(span);
    while (Span* span = nodes[node].take(1, zero, kSliceSize)) taken_.push_back(span);
  }
  void exhaust_all() {
    for (unsigned n = 0; n < topology.count; n++) exhaust(n);
  }

  size_t region_slices_ = 0;
  std::vector<Span*> taken_;
};

TEST_F(MemoryTest, EveryNodeHasARegionInOneReservation) {
  EXPECT_EQ(near::reserved_bytes % topology.count, 0u);
  const auto* base = reinterpret_cast<const char*>(near::reserved_base);
  for (size_t offset = 0; offset < near::reserved_bytes; offset += kSliceSize) {
    EXPECT_EQ(near::span_of(base + offset), &near::reserved_spans[offset / kSliceSize]);
  }
  for (unsigned n = 0; n < topology.count; n++) {
    const Span* span = take(n, 1);
    EXPECT_EQ(node_of(span), n);
    EXPECT_EQ((reinterpret_cast<uintptr_t>(span->start) - near::reserved_base) /
                  (near::reserved_bytes / topology.count),
              n);
    EXPECT_EQ(near::span_of(span->start + 100), span);
    count_cases();
  }
  int here = 0;
  EXPECT_EQ(near::span_of(&here), nullptr);
  EXPECT_EQ(near::span_of(nullptr), nullptr);
  EXPECT_EQ(near::span_of(base - 1), nullptr);
}

TEST_F(MemoryTest, ANodeThatIsFullSpillsToTheNearest) {
  for (unsigned home = 0; home < topology.count; home++) {
    for (unsigned i = 0; i < topology.count; i++) {
      const uint64_t spills = near::spill_count();
      const Span* span = take(home, 1);
      EXPECT_EQ(node_of(span), topology.order[home][i]) << "from node " << home;
      EXPECT_EQ(near::spill_count(), spills + (i > 0 ? 1 : 0));
      exhaust(topology.order[home][i]);
      count_cases();
    }
    for (Span* span : taken_) near::node_of(*span).give(span);
    taken_.clear();
  }
}

// What a heap holds without need is found before memory is refused.
TEST_F(MemoryTest, AllIsGivenBackBeforeMemoryIsRefused) {
  fake_os::fail(OsCall::reserve, 1, true);
  std::vector<void*> blocks;
  for (size_t size = 16; size < 20'000; size = size * 5 / 4) blocks.push_back(near_malloc(size));
  while (void* block = near_malloc(100)) blocks.push_back(block);
  EXPECT_GT(blocks.size(), region_slices_ * 500);
  for (void* block : blocks) near_free(block);
  void* all = near_malloc(region_slices_ * kSliceSize);
  EXPECT_NE(all, nullptr);
  near_free(all);
  near_malloc_trim(0);
  count_cases();
}

// From here on regions are added, which stay.
TEST_F(MemoryTest, RefusedRegionsAreNoMemoryAndCostNone) {
  exhaust_all();
  const uint64_t before = near::spill_count();
  const size_t metadata = near::metadata_bytes();
  fake_os::fail(OsCall::reserve, 1, true);
  for (int i = 0; i < 1'000; i++) EXPECT_EQ(take(0, 1), nullptr);
  fake_os::fail_none();
  fake_os::fail(OsCall::make_readable, 1, true);
  const size_t reserved = fake_os::reserved_bytes();
  for (int i = 0; i < 100; i++) EXPECT_EQ(take(0, 1), nullptr);
  EXPECT_LE(fake_os::reserved_bytes(), reserved + near::kMiB);
  EXPECT_LE(near::metadata_bytes(), metadata + 1024) << "every refusal costs memory";
  EXPECT_EQ(near::spill_count(), before);
  count_cases(1'100);
}

// Where memory is short, not address space, another region would not help.
TEST_F(MemoryTest, RefusedMemoryAddsNoRegions) {
  fake_os::fail(OsCall::commit, 1, true);
  for (unsigned n = 0; n < topology.count; n++) exhaust(n);
  const size_t reserved = fake_os::reserved_bytes();
  // Each reserves and releases a gigabyte, which is slow under an emulator; a hundred that stay are
  // as far over the bound as a thousand.
  const size_t times = std::max<size_t>(scaled(1'000), 100);
  for (size_t i = 0; i < times; i++) EXPECT_EQ(take(0, 1), nullptr);
  for (size_t i = 0; i < times / 10; i++) EXPECT_EQ(take(0, 20'000), nullptr);
  EXPECT_LE(fake_os::reserved_bytes(), reserved + 2 * near::kGiB + near::kGiB / 2);
  fake_os::fail_none();
  EXPECT_NE(take(0, 1), nullptr);
  count_cases(times + times / 10);
}

TEST_F(MemoryTest, ARegionThatJustFitsIsFoundWhenALargerOneIsRefused) {
  // 700 MiB are wanted; 1 GiB, the usual size, is refused.
  const size_t wanted = 700 * near::kMiB;
  fake_os::set_address_space_limit(fake_os::reserved_bytes() + 800 * near::kMiB);
  Span* span = take(0, static_cast<uint32_t>(wanted / kSliceSize));
  fake_os::set_address_space_limit(SIZE_MAX);
  ASSERT_NE(span, nullptr);
  EXPECT_EQ(node_of(span), 0u);
  EXPECT_EQ(near::span_of(span->start + wanted - 1), span + span->slices - 1);
  span->start[wanted - 1] = 1;
  count_cases();
}

TEST_F(MemoryTest, WhenAllAreFullARegionIsAdded) {
  const unsigned home = topology.count - 1;
  exhaust_all();
  const uint64_t spills = near::spill_count();
  Span* span = take(home, 3);
  ASSERT_NE(span, nullptr);
  EXPECT_EQ(node_of(span), home) << "the added region belongs to the node that asked";
  EXPECT_EQ(near::spill_count(), spills);
  const auto offset = reinterpret_cast<uintptr_t>(span->start) - near::reserved_base;
  EXPECT_GE(offset, near::reserved_bytes);
  EXPECT_EQ(near::span_of(span->start), span);
  EXPECT_EQ(near::span_of(span->start + 2 * kSliceSize), span + 2);
  EXPECT_EQ(near::span_of(span->start)->region->node(), home);
  // What is larger than any region gets one of its own, also when aligned to more than a chunk.
  Span* huge = take(0, (near::kGiB + near::kGiB / 2) / kSliceSize, 64 * near::kMiB);
  ASSERT_NE(huge, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(huge->start) % (64 * near::kMiB), 0u);
  EXPECT_EQ(near::span_of(huge->start + huge->bytes() - 1), huge + huge->slices - 1);
  count_cases(7);
}

TEST_F(MemoryTest, AddedRegionsAreBoundToTheirNodeAndRefusalsCounted) {
  topology.real = true;
  const auto huge = static_cast<uint32_t>(2 * near::kGiB / kSliceSize);
  for (unsigned n = 0; n < topology.count; n++) {
    const uint64_t refused = near::bind_refused_count();
    Span* span = take(n, huge);
    ASSERT_NE(span, nullptr);
    EXPECT_EQ(node_of(span), n);
    EXPECT_EQ(fake_os::bound_node(span->start), topology.kernel_id[n]);
    EXPECT_EQ(fake_os::bound_node(span), topology.kernel_id[n]) << "its descriptors are at home";
    EXPECT_EQ(near::bind_refused_count(), refused);
    fake_os::fail(OsCall::bind, 1, true);
    EXPECT_NE(take(n, huge), nullptr) << "a refused binding is no refusal";
    fake_os::fail_none();
    EXPECT_GE(near::bind_refused_count(), refused + 3);
    count_cases(2);
  }
  const uint64_t calls = fake_os::calls(OsCall::bind);
  near::set_option("bind", 0);
  EXPECT_NE(take(0, huge), nullptr);
  EXPECT_EQ(fake_os::calls(OsCall::bind), calls);
  near::set_option("bind", 1);
}

TEST_F(MemoryTest, MetadataIsZeroAlignedAndApart) {
  std::vector<char*> pieces;
  for (unsigned n = 0; n < topology.count; n++) {
    for (const size_t bytes : {1u, 100u, 5'000u, 60'000u, 200'000u}) {
      auto* piece = static_cast<char*>(near::take_metadata(n, bytes));
      ASSERT_NE(piece, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
      for (size_t i = 0; i < bytes; i++) ASSERT_EQ(piece[i], 0) << "pieces overlap";
      for (size_t i = 0; i < bytes; i++) piece[i] = 1;
      count_cases();
    }
  }
  const size_t reserved = fake_os::reserved_bytes();
  fake_os::fail(OsCall::commit, 1, true);
  EXPECT_EQ(near::take_metadata(0, near::kMiB), nullptr);
  EXPECT_EQ(fake_os::reserved_bytes(), reserved);
}

}  // namespace
}  // namespace near_test

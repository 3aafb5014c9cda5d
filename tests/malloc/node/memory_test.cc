// All nodes together on fake topologies with small regions: spills, added windows, binding.
// Runs with NEARMALLOC_TOPOLOGY of several nodes and NEARMALLOC_REGION_MIB.
#include "node/memory.h"

#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <algorithm>
#include <map>
#include <vector>

#include "front/thread.h"
#include "node/bind.h"
#include "platform/options.h"
#include "recorded_events.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/forked.h"

namespace near_test {
namespace {

using near::EventKind;
using near::kSliceSize;
using near::nodes;
using near::Span;
using near::topology;

class MemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    near::start_library();
    ASSERT_GE(topology.count, 2u) << "NEARMALLOC_TOPOLOGY is missing";
    const auto region_mib = static_cast<size_t>(near::option(near::Option::region_mib));
    ASSERT_TRUE(region_mib > 0 && region_mib <= 16) << "NEARMALLOC_REGION_MIB is missing";
    region_slices_ = region_mib * near::kMiB / kSliceSize;
  }
  void TearDown() override {
    topology.real = false;
    fake_os::fail_none();
    fake_os::set_address_space_limit(SIZE_MAX);
    fake_os::refuse_below(0);
    for (Span* span : taken_) near::shard_of(*span).give(span);
    for (unsigned n = 0; n < topology.count; n++) {
      EXPECT_EQ(nodes[n].check(), 0u);
      EXPECT_EQ(nodes[n].totals().in_spans, 0u);
    }
  }

  Span* take(unsigned node, uint32_t slices, size_t alignment = kSliceSize) {
    bool zero = false;
    Span* span = near::take_slices(near::nodes[node].shard(0), {slices, alignment}, zero);
    if (span != nullptr) taken_.push_back(span);
    return span;
  }
  unsigned node_of(const Span* span) { return span->region->node(); }

  // Takes all of a node's memory: afterwards the node has nothing left.
  void exhaust(unsigned node) {
    bool zero = false;
    while (Span* span = nodes[node].take(nodes[node].shard(0), {16}, zero)) taken_.push_back(span);
    while (Span* span = nodes[node].take(nodes[node].shard(0), {1}, zero)) taken_.push_back(span);
  }
  void exhaust_all() {
    for (unsigned n = 0; n < topology.count; n++) exhaust(n);
  }

  size_t region_slices_ = 0;
  std::vector<Span*> taken_;
};

// These objects are neighbours on purpose; each has a cache-line pair of its own.
static_assert(alignof(near::Node) == 128 && alignof(near::AddressMap) == 128);
static_assert(sizeof(near::AddressMap) == 128);

TEST_F(MemoryTest, WhatEveryFreeReadsLiesApart) {
  const auto line_of = [](const void* address) {
    return reinterpret_cast<uintptr_t>(address) / 128;
  };
  EXPECT_EQ(line_of(&near::reserved_base), line_of(&near::reserved_spans));
  EXPECT_EQ(line_of(&near::reserved_base), line_of(&near::reserved_bytes));
  for (unsigned n = 0; n < near::kMaxNodes; n++) {
    EXPECT_NE(line_of(&near::reserved_base), line_of(&nodes[n].shard(0).lock));
    EXPECT_NE(line_of(&nodes[0].shard(0).lock), line_of(&nodes[n == 0 ? 1 : n].shard(0).lock));
    count_cases();
  }
}

TEST_F(MemoryTest, NodesShareOneWindow) {
  const auto* base = reinterpret_cast<const char*>(near::reserved_base);
  for (unsigned n = 0; n < topology.count; n++) {
    const Span* span = take(n, 1);
    EXPECT_EQ(node_of(span), n);
    EXPECT_LT(reinterpret_cast<uintptr_t>(span->start) - near::reserved_base, near::reserved_bytes);
    EXPECT_EQ(near::span_of(span->start + 100), span);
    EXPECT_EQ(span->node, n);
    count_cases();
  }
  for (size_t offset = 0; offset < near::reserved_bytes; offset += kSliceSize) {
    EXPECT_EQ(near::span_of(base + offset), &near::reserved_spans[offset / kSliceSize]);
  }
  int here = 0;
  EXPECT_EQ(near::span_of(&here), nullptr);
  EXPECT_EQ(near::span_of(nullptr), nullptr);
  EXPECT_EQ(near::span_of(base - 1), nullptr);
  EXPECT_EQ(near::span_of(base + near::reserved_bytes), nullptr);
}

TEST_F(MemoryTest, ANodeThatIsFullSpillsToTheNearest) {
  for (unsigned home = 0; home < topology.count; home++) {
    for (unsigned i = 0; i < topology.count; i++) {
      const uint64_t spills = near::spill_count();
      forget_events();
      const Span* span = take(home, 1);
      EXPECT_EQ(node_of(span), topology.order[home][i]) << "from node " << home;
      EXPECT_EQ(near::spill_count(), spills + (i > 0 ? 1 : 0));
      const auto events = recorded_events(EventKind::spill);
      ASSERT_EQ(events.size(), i > 0 ? 1u : 0u);
      for (const near::Event& event : events) {
        EXPECT_EQ(event.node, home);
        EXPECT_EQ(event.other, topology.order[home][i]);
        EXPECT_EQ(event.bytes, 0u);
      }
      exhaust(topology.order[home][i]);
      count_cases();
    }
    for (Span* span : taken_) near::shard_of(*span).give(span);
    taken_.clear();
  }
}

// The thread that was purging does not exist in the child; the slices that it had withdrawn do.
// Unused slices of a huge page are resident, and may count as dirty then.
TEST_F(MemoryTest, AChildOfForkHasWhatWasBeingPurged) {
  near_free(near_malloc(1));  // so that forks are handled
  near_malloc_trim(0);
  Span* kept = take(0, 1);
  bool zero = false;
  Span* span = nodes[0].take(nodes[0].shard(0), {20}, zero);
  near::Region& region = *span->region;
  const auto chunk =
      static_cast<uint32_t>((span->start - region.chunk_start(0)) >> near::kChunkShift);
  nodes[0].shard(0).give(span);
  const size_t dirty = nodes[0].dirty_bytes();
  ASSERT_GE(dirty, 20 * kSliceSize);
  nodes[0].shard(0).lock.lock();
  const uint32_t slices = region.withdraw_dirty(chunk);
  nodes[0].shard(0).lock.unlock();
  const int status = run_in_child([&] {
    const bool whole = nodes[0].check() == 0 && nodes[0].dirty_bytes() >= dirty &&
                       nodes[0].take(nodes[0].shard(0), {20}, zero) != nullptr && !zero;
    return whole ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  nodes[0].shard(0).lock.lock();
  region.put_back(chunk, slices, slices);
  nodes[0].shard(0).lock.unlock();
  EXPECT_EQ(kept->slices, 1u);
  count_cases();
}

// Before memory is refused, the memory that heaps hold without need is used.
TEST_F(MemoryTest, AllIsGivenBackBeforeMemoryIsRefused) {
  exhaust_all();
  for (Span* span : taken_) near::shard_of(*span).give(span);
  taken_.clear();
  fake_os::set_address_space_limit(fake_os::reserved_bytes() + near::kMiB);
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

// The tests from here on add windows, which stay.
TEST_F(MemoryTest, RefusedWindowsAreNoMemoryAndCostNone) {
  exhaust_all();
  const uint64_t before = near::spill_count();
  const size_t metadata = near::metadata_bytes();
  const size_t reserved = fake_os::reserved_bytes();
  for (const uint64_t nth : {1u, 2u, 2u, 3u}) {  // descriptors, the table, chunks
    for (int i = 0; i < 250; i++) {
      fake_os::fail(OsCall::map, nth, true);
      EXPECT_EQ(take(0, 1), nullptr);
    }
  }
  EXPECT_LE(fake_os::reserved_bytes(), reserved + near::kMiB);
  EXPECT_LE(near::metadata_bytes(), metadata + 4096) << "every refusal costs memory";
  EXPECT_EQ(near::spill_count(), before);
  count_cases(1'000);
}

// Where memory is short, and not address space, another window would not help.
TEST_F(MemoryTest, RefusedMemoryAddsNoWindows) {
  fake_os::fail(OsCall::map, 1, true);
  for (unsigned n = 0; n < topology.count; n++) exhaust(n);
  const size_t reserved = fake_os::reserved_bytes();
  const size_t times = std::max<size_t>(scaled(1'000), 100);
  for (size_t i = 0; i < times; i++) EXPECT_EQ(take(0, 1), nullptr);
  for (size_t i = 0; i < times / 10; i++) EXPECT_EQ(take(0, 20'000), nullptr);
  EXPECT_EQ(fake_os::reserved_bytes(), reserved);
  fake_os::fail_none();
  EXPECT_NE(take(0, 1), nullptr);
  count_cases(times + times / 10);
}

// Another mapping occupies the place of a new window: the window lies elsewhere, the mapping
// stays.
TEST_F(MemoryTest, AWindowIsPlannedElsewhereIfItsPlaceIsTaken) {
  exhaust_all();
  fake_os::refuse_below(1);  // the system chooses no place
  for (int i = 0; i < 4; i++) {
    fake_os::occupy_next();
    Span* span = take(0, static_cast<uint32_t>(near::kGiB / kSliceSize));
    ASSERT_NE(span, nullptr);
    EXPECT_EQ(near::span_of(span->start), span);
    span->start[0] = 1;
    count_cases();
  }
}

TEST_F(MemoryTest, AWindowIsMappedNoFurtherThanItIsNeeded) {
  // 700 MiB are wanted; 1 GiB, the usual size of a window, would be refused.
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

TEST_F(MemoryTest, WhenAllAreFullAWindowIsAdded) {
  const unsigned home = topology.count - 1;
  exhaust_all();
  const uint64_t spills = near::spill_count();
  Span* span = take(home, 3);
  ASSERT_NE(span, nullptr);
  EXPECT_EQ(node_of(span), home) << "the added window belongs to the node that asked";
  EXPECT_EQ(near::spill_count(), spills);
  const auto offset = reinterpret_cast<uintptr_t>(span->start) - near::reserved_base;
  EXPECT_GE(offset, near::reserved_bytes);
  EXPECT_EQ(near::span_of(span->start), span);
  EXPECT_EQ(near::span_of(span->start + 2 * kSliceSize), span + 2);
  EXPECT_EQ(near::span_of(span->start)->region->node(), home);
  // A span larger than any window gets a window of its own, also if aligned to more than a
  // chunk.
  Span* huge = take(0, (near::kGiB + near::kGiB / 2) / kSliceSize, 64 * near::kMiB);
  ASSERT_NE(huge, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(huge->start) % (64 * near::kMiB), 0u);
  EXPECT_EQ(near::span_of(huge->start + huge->bytes() - 1), huge + huge->slices - 1);
  count_cases(7);
}

TEST_F(MemoryTest, AddedWindowsAreBoundToTheirNodeAndRefusalsCounted) {
  topology.real = true;
  // This is more than any window has left.
  const auto huge = static_cast<uint32_t>(8 * near::kGiB / kSliceSize);
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

// numactl --interleave, --preferred or --membind: memory follows the policy that was there first.
TEST_F(MemoryTest, APolicyOfTheProcessIsNotOverridden) {
  topology.real = topology.has_policy = true;
  char* memory = take(0, 4)->start;
  const auto binds = [&] {
    const uint64_t before = fake_os::calls(OsCall::bind);
    near::bind_to(1, memory, kSliceSize);
    return fake_os::calls(OsCall::bind) > before;
  };
  EXPECT_FALSE(binds());
  near::set_option("bind", 2);  // strict: the user asks for it
  EXPECT_TRUE(binds());
  near::set_option("bind", 1);
  topology.has_policy = false;
  EXPECT_TRUE(binds());
  count_cases(3);
}

TEST_F(MemoryTest, ARefusedBindingIsAnEvent) {
  topology.real = true;
  char* memory = take(0, 4)->start;
  for (unsigned n = 0; n < topology.count; n++) {
    forget_events();
    near::bind_to(n, memory, 3 * kSliceSize);
    EXPECT_TRUE(recorded_events(EventKind::bind_refused).empty());
    fake_os::fail(OsCall::bind, 1, true);
    near::bind_to(n, memory, 3 * kSliceSize);
    fake_os::fail_none();
    const auto events = recorded_events(EventKind::bind_refused);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].node, n);
    EXPECT_EQ(events[0].other, n);
    EXPECT_EQ(events[0].bytes, 3 * kSliceSize);
    count_cases();
  }
}

TEST_F(MemoryTest, MetadataIsZeroAlignedAndApart) {
  std::vector<char*> pieces;
  for (unsigned n = 0; n < topology.count; n++) {
    for (const size_t bytes : {1u, 100u, 5'000u, 60'000u, 200'000u}) {
      auto* piece = static_cast<char*>(near::nodes[n].take_metadata(bytes));
      ASSERT_NE(piece, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
      for (size_t i = 0; i < bytes; i++) ASSERT_EQ(piece[i], 0) << "pieces overlap";
      for (size_t i = 0; i < bytes; i++) piece[i] = 1;
      count_cases();
    }
  }
  const size_t reserved = fake_os::reserved_bytes();
  fake_os::fail(OsCall::map, 1, true);
  EXPECT_EQ(near::nodes[0].take_metadata(near::kMiB), nullptr);
  EXPECT_EQ(fake_os::reserved_bytes(), reserved);
}

}  // namespace
}  // namespace near_test

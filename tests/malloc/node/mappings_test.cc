// A region's count of mappings against the system's.
#include "node/mappings.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "support/cases.h"
#include "support/fake_os.h"
#include "support/forked.h"
#include "support/pattern.h"
#include "support/region_room.h"

namespace near_test {
namespace {

using near::kChunkSize;
using near::kChunkSlices;
using near::kSliceSize;
using near::Span;

constexpr uint32_t kManyChunks = 200;

class MappingsTest : public ::testing::Test {
 protected:
  MappingsTest() { room_.shard().add(&region_); }
  ~MappingsTest() override { near::mapping_count.set_limit(near::os::kUsualMappings); }

  Span* take(uint32_t slices) { return take(slices, dense_); }
  Span* take(uint32_t slices, bool dense) {
    bool zero = false;
    bool refused = false;
    Span* span = room_.shard().take({slices, kSliceSize, dense}, zero, refused);
    if (span == nullptr) return nullptr;
    span->kind = near::SpanKind::large;
    for (uint32_t i = 0; i < slices; i++) span->start[i * kSliceSize] = 1;
    return span;
  }
  void give(Span* span) { room_.shard().give(span); }

  // All chunks have small pages, because no run is dense.
  void use_small_pages() { dense_ = false; }

  // From now on nothing that adds a mapping may start.
  void allow_no_more() {
    near::mapping_count.set_limit(0);
    EXPECT_TRUE(near::mapping_count.is_full());
  }

  int of_the_system() const {
    std::FILE* maps = std::fopen("/proc/self/maps", "r");
    int found = 0;
    unsigned long start = 0;
    unsigned long end = 0;
    while (std::fscanf(maps, "%lx-%lx%*[^\n]", &start, &end) == 2) {
      const auto base = reinterpret_cast<unsigned long>(room_.base());
      if (end > base && start < base + room_.bytes()) found++;
    }
    std::fclose(maps);
    return found;
  }

  // Returns the largest excess of the system's mappings over the region's count.
  int excess_in_random_life(uint64_t seed) {
    Random random(seed);
    std::vector<Span*> live;
    int excess = INT32_MIN;
    for (int step = 0; step < 600; step++) {
      const bool grows = step % 100 < 60;
      if (live.empty() || random.below(10) < (grows ? 7 : 3)) {
        if (Span* span = take(8 + static_cast<uint32_t>(random.below(80)))) live.push_back(span);
      } else {
        const size_t at = random.below(live.size());
        give(live[at]);
        live[at] = live.back();
        live.pop_back();
      }
      if (random.below(8) == 0) room_.shard().trim(0);
      if (step % 20 == 0) excess = std::max(excess, of_the_system() - region_.mappings());
      count_cases();
    }
    EXPECT_EQ(region_.check(), 0u);
    for (Span* span : live) give(span);
    return excess;
  }

  bool dense_ = true;
  RegionRoom room_{kManyChunks};
  near::Region& region_ = room_.region();
};

TEST_F(MappingsTest, TheSystemHasNoMoreThanAreCounted) {
  use_small_pages();
  EXPECT_LE(excess_in_random_life(1), 0);
  EXPECT_LE(excess_in_random_life(2), 0);
}

// The system joins nothing to a mapping of the parent.
TEST_F(MappingsTest, AChildOfAForkCountsItsOwn) {
  use_small_pages();
  EXPECT_LE(excess_in_random_life(3), 0);
  std::vector<Span*> kept;
  for (int i = 0; i < 50; i++) kept.push_back(take(kChunkSlices + 3));
  for (size_t i = 0; i < kept.size(); i += 2) give(kept[i]);
  room_.shard().trim(0);
  const int status = run_in_child([&] {
    near::mapping_count.count_fork();
    return excess_in_random_life(4) <= 0 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(MappingsTest, AHoleThatIsFilledCountsNoMore) {
  std::vector<Span*> spans;
  for (int i = 0; i < 9; i++) spans.push_back(take(kChunkSlices));
  const int before = region_.mappings();
  for (const size_t i : {2, 3, 5}) give(spans[i]);
  room_.shard().trim(0);
  EXPECT_EQ(region_.mappings(), before + 2);
  EXPECT_EQ(of_the_system(), 3);
  for (int i = 0; i < 3; i++) take(kChunkSlices);
  EXPECT_EQ(region_.mappings(), before);
  EXPECT_EQ(of_the_system(), 1);
  count_cases(4);
}

TEST_F(MappingsTest, NoHoleIsMadeOnceTheyAreScarce) {
  std::vector<Span*> spans;
  for (int i = 0; i < 9; i++) spans.push_back(take(kChunkSlices));
  allow_no_more();
  give(spans[4]);
  give(spans[8]);
  const size_t committed = region_.committed_bytes();
  room_.shard().trim(0);
  EXPECT_TRUE(region_.is_mapped(4)) << "its pages are dropped in place";
  EXPECT_EQ(region_.dirty_slices(), 0u);
  EXPECT_FALSE(region_.is_mapped(8)) << "its end is nobody's beginning";
  EXPECT_LT(region_.committed_bytes(), committed);
  count_cases(3);
}

TEST_F(MappingsTest, GrowthJoinsWhatIsMappedOnceTheyAreScarce) {
  std::vector<Span*> spans;
  for (int i = 0; i < 40; i++) spans.push_back(take(kChunkSlices));
  for (const size_t i : {20, 24, 21, 23, 22}) give(spans[i]);
  room_.shard().trim(0);
  allow_no_more();
  const int before = region_.mappings();
  ASSERT_NE(take(1, false), nullptr);
  for (int i = 0; i < 4; i++) ASSERT_NE(take(kChunkSlices, i % 2 == 0), nullptr);
  EXPECT_LE(region_.mappings(), before);
  EXPECT_EQ(region_.check(), 0u);
  count_cases(3);
}

// Two more mappings would be the price of small pages for a single chunk.
TEST_F(MappingsTest, NoChunkIsSplitOnceTheyAreScarce) {
  std::vector<Span*> spans;
  for (int i = 0; i < 20; i++) {
    spans.push_back(take(kChunkSlices / 2));
    take(kChunkSlices / 2);
  }
  ASSERT_EQ(region_.chunk(15).pages, near::Pages::huge);
  give(spans[14]);
  room_.shard().purge(0, 0);
  EXPECT_EQ(region_.chunk(14).pages, near::Pages::split);
  const int before = region_.mappings();
  allow_no_more();
  give(spans[17]);
  room_.shard().purge(0, 0);
  EXPECT_EQ(region_.chunk(17).pages, near::Pages::huge);
  EXPECT_EQ(region_.dirty_slices(), 0u);
  EXPECT_EQ(region_.mappings(), before);
  count_cases(3);
}

// A block of whole chunks that begins at a chunk moves by its page tables.
class MovesTest : public MappingsTest {
 protected:
  // As realloc does. Returns the new run.
  Span* grow(Span* span, uint32_t slices, bool& moved) {
    Span* to = room_.shard().move(span, {slices, kChunkSize}, moved);
    if (to != nullptr) to->kind = near::SpanKind::large;
    EXPECT_EQ(region_.check(), 0u);
    EXPECT_LE(of_the_system(), region_.mappings());
    count_cases();
    return to;
  }
  static bool holds_ones(const Span* span, uint32_t slices) {
    for (uint32_t i = 0; i < slices; i++) {
      if (span->start[i * kSliceSize] != 1) return false;
    }
    return true;
  }
};

TEST_F(MovesTest, PagesMoveAndTheOldChunksAreAbsent) {
  use_small_pages();
  Span* first = take(2 * kChunkSlices);
  Span* second = take(2 * kChunkSlices);
  bool moved = false;
  Span* longer = grow(first, 3 * kChunkSlices, moved);
  ASSERT_TRUE(moved);
  EXPECT_FALSE(region_.is_mapped(0) || region_.is_mapped(1));
  EXPECT_TRUE(holds_ones(longer, 2 * kChunkSlices));
  EXPECT_TRUE(room_.shard().is_moved(*longer));
  EXPECT_EQ(longer->start[2 * kChunkSize], 0) << "its new end reads as zero";
  Span* longest = grow(longer, 9 * kChunkSlices, moved);
  ASSERT_TRUE(moved);
  EXPECT_TRUE(holds_ones(longest, 2 * kChunkSlices));
  EXPECT_TRUE(holds_ones(second, 2 * kChunkSlices));
  give(longest);
  give(second);
  room_.shard().trim(0);
  EXPECT_EQ(region_.committed_bytes(), 0u);
  EXPECT_EQ(region_.mappings(), 0);
}

TEST_F(MovesTest, TheEndBehindTheLastWholeChunkIsCopied) {
  take(kChunkSlices);  // the first chunk always has small pages
  Span* span = take(2 * kChunkSlices + 5);
  Span* neighbour = take(3);
  bool moved = false;
  Span* longer = grow(span, 4 * kChunkSlices, moved);
  ASSERT_TRUE(moved);
  EXPECT_TRUE(holds_ones(longer, 2 * kChunkSlices + 5));
  EXPECT_TRUE(holds_ones(neighbour, 3));
  EXPECT_EQ(region_.dirty_slices(), 5u);
}

TEST_F(MovesTest, BytesAreCopiedWherePagesCannotMove) {
  use_small_pages();
  take(1);
  bool moved = true;
  Span* inside = take(kChunkSlices + 1);  // begins in a chunk
  EXPECT_NE(grow(inside, 2 * kChunkSlices, moved), nullptr);
  EXPECT_FALSE(moved);
  EXPECT_TRUE(holds_ones(inside, kChunkSlices + 1));
  bool first_moved = false;
  Span* span = grow(take(kChunkSlices), 2 * kChunkSlices, first_moved);
  allow_no_more();
  EXPECT_NE(grow(span, 3 * kChunkSlices, moved), nullptr);
  EXPECT_FALSE(moved) << "it would make three mappings more";
}

TEST_F(MovesTest, ARefusedMoveLeavesTheBlock) {
  use_small_pages();
  Span* span = take(kChunkSlices);
  take(1);
  bool moved = true;
  fake_os::fail(OsCall::move, 1, false);
  EXPECT_EQ(grow(span, 3 * kChunkSlices, moved), nullptr);
  fake_os::fail_none();
  EXPECT_TRUE(holds_ones(span, kChunkSlices));
  EXPECT_EQ(region_.committed_bytes(), 2 * kChunkSize);
  EXPECT_NE(grow(span, 3 * kChunkSlices, moved), nullptr);
  EXPECT_TRUE(moved);
}

// With no mapping left for a hole, the system refuses to unmap the new run, too.
TEST_F(MovesTest, ARunThatCannotBeUnmappedIsGivenBack) {
  use_small_pages();
  Span* span = take(kChunkSlices);
  take(1);
  bool moved = true;
  fake_os::fail(OsCall::move, 1, false);
  fake_os::fail(OsCall::unmap, 1, false);
  EXPECT_EQ(grow(span, 3 * kChunkSlices, moved), nullptr);
  fake_os::fail_none();
  EXPECT_FALSE(moved);
  EXPECT_TRUE(holds_ones(span, kChunkSlices));
  EXPECT_EQ(region_.committed_bytes(), 5 * kChunkSize);
  EXPECT_NE(take(3 * kChunkSlices), nullptr);
  EXPECT_EQ(region_.committed_bytes(), 5 * kChunkSize);
}

TEST_F(MovesTest, AMovedBlockGrowsInItsOwnRoom) {
  use_small_pages();
  Span* span = take(kChunkSlices);
  take(1);
  bool moved = false;
  span = grow(span, 4 * kChunkSlices, moved);
  ASSERT_TRUE(moved);
  room_.shard().give(span, 2 * kChunkSlices);
  EXPECT_TRUE(room_.shard().extend(span, kChunkSlices));
  EXPECT_FALSE(room_.shard().extend(span, 2 * kChunkSlices)) << "it would lie in two mappings";
  EXPECT_EQ(region_.check(), 0u);
}

TEST_F(MappingsTest, TheLimitIsAQuarterWithRoomForGrowth) {
  near::MappingCount count;
  count.set_limit(800);
  EXPECT_TRUE(count.allows(175));
  EXPECT_FALSE(count.allows(176));
  count.add(175);
  EXPECT_TRUE(count.is_full());
  EXPECT_TRUE(count.allows(0));
  count.add(-1);
  EXPECT_FALSE(count.is_full());
  count_cases(5);
}

}  // namespace
}  // namespace near_test

// A region alone against a map of its slices: which span has each, and whether it may be dirty.
#include "node/region.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "node/density.h"
#include "platform/clock.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/pattern.h"
#include "support/region_room.h"

namespace near_test {
namespace {

// Another thread may have read the clock later. Ages of 50 days and of 10 years both count as
// old.
constexpr uint64_t kDay = 86'400'000;
static_assert(near::is_old(1000, 900, 100) && !near::is_old(1000, 901, 100));
static_assert(near::is_old(1000 + 25 * kDay, 1000, 100) && near::is_old(50 * kDay, 1000, 100));
static_assert(near::is_old(3650 * kDay, 1, 100) && !near::is_old(5, 6, 0));

using near::Growth;
using near::kChunkSlices;
using near::kSliceSize;
using near::Region;
using near::Span;

constexpr uint32_t kChunks = 24;
constexpr uint32_t kSlices = kChunks * kChunkSlices;

// The state of each slice, kept apart from the region's own records.
class Model {
 public:
  explicit Model(RegionRoom& room)
      : room_(room), owner_(kSlices, nullptr), dirty_(kSlices, false) {}

  Region& region() { return room_.region(); }
  size_t index_of(const char* address) const {
    return static_cast<size_t>(address - room_.base()) / kSliceSize;
  }

  // Takes as a node does: the region grows if nothing fits.
  Span* take(uint32_t slices, size_t alignment = kSliceSize, bool dense = true) {
    uint32_t clean = ~0u;
    const near::RunRequest request{slices, alignment, dense};
    Span* span = region().take(request, clean);
    if (span == nullptr) {
      grow([&](bool generous) { return region().plan_growth(request, generous); },
           [&](const Growth& growth) { span = region().take_grown(growth, request, clean); });
    }
    if (span == nullptr) return nullptr;
    EXPECT_EQ(span->region, &region());
    EXPECT_EQ(span->slices, slices);
    EXPECT_EQ(span, region().span_at(span->start));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(span->start) % alignment, 0u);
    span->kind = near::SpanKind::large;
    EXPECT_EQ(clean, claim(*span, index_of(span->start), slices));
    live_.push_back(span);
    return span;
  }

  void give(Span* span, uint32_t keep, uint32_t now_ms) {
    const size_t first = index_of(span->start);
    for (size_t i = first + keep; i < first + span->slices; i++) {
      EXPECT_EQ(owner_[i], span);
      owner_[i] = nullptr;
      dirty_[i] = true;
    }
    region().give(span, keep, now_ms);
    if (keep == 0) std::erase(live_, span);
  }

  bool extend(Span* span, uint32_t more) {
    const size_t end = index_of(span->start) + span->slices;
    bool free = end + more <= kSlices;
    for (size_t i = end; free && i < end + more; i++) free = owner_[i] == nullptr && !away_[i];
    bool extended = region().extend(span, more);
    if (!extended) {
      grow([&](bool) { return region().plan_extension(*span, more); },
           [&](const Growth&) { extended = region().extend(span, more); });
    }
    EXPECT_EQ(extended, free) << "extending " << span << " by " << more;
    if (extended) claim(*span, end, more);
    return extended;
  }

  // Purges a chunk in two steps, as a node does; `while_away` runs in between.
  template <typename Meanwhile>
  void purge(uint32_t chunk, bool refused, Meanwhile while_away) {
    const bool huge = region().chunk(chunk).pages == near::Pages::huge;
    const uint32_t slices = region().withdraw_dirty(chunk);
    for (unsigned i = 0; i < kChunkSlices; i++) {
      const size_t at = size_t{chunk} * kChunkSlices + i;
      const bool withdrawn = (slices >> i & 1) != 0;
      EXPECT_EQ(withdrawn, owner_[at] == nullptr && (dirty_[at] || huge));
      away_[at] = withdrawn;
    }
    while_away();
    for (unsigned i = 0; i < kChunkSlices; i++) {
      const size_t at = size_t{chunk} * kChunkSlices + i;
      if ((slices >> i & 1) == 0) continue;
      if (!refused) near::os::purge(room_.base() + at * kSliceSize, kSliceSize);
      dirty_[at] = refused;
      away_[at] = false;
    }
    region().put_back(chunk, slices, refused ? slices : 0);
  }

  // Unmaps a wholly free chunk, or tries to; `while_away` runs in between.
  template <typename Meanwhile>
  void unmap(uint32_t chunk, bool refused, Meanwhile while_away) {
    const uint32_t dirty = region().chunk(chunk).dirty;
    for (unsigned i = 0; i < kChunkSlices; i++) {
      const size_t at = size_t{chunk} * kChunkSlices + i;
      EXPECT_EQ(owner_[at], nullptr);
      away_[at] = true;
    }
    region().withdraw_whole(chunk);
    while_away();
    if (!refused) near::os::unmap(region().chunk_start(chunk), near::kChunkSize);
    for (unsigned i = 0; i < kChunkSlices; i++) {
      const size_t at = size_t{chunk} * kChunkSlices + i;
      away_[at] = false;
      if (!refused) dirty_[at] = false;
    }
    region().put_back_whole(chunk, dirty, !refused);
  }

  void check() {
    ASSERT_EQ(region().check(), 0u);
    size_t free = 0;
    size_t dirty = 0;
    for (size_t i = 0; i < size_t{region().chunks_end()} * kChunkSlices; i++) {
      if (owner_[i] != nullptr || away_[i]) continue;
      if (!region().is_mapped(static_cast<uint32_t>(i / kChunkSlices))) {
        ASSERT_FALSE(dirty_[i]);
        continue;
      }
      free++;
      dirty += dirty_[i] ? 1 : 0;
    }
    ASSERT_EQ(region().free_slices(), free);
    ASSERT_EQ(region().dirty_slices() + region().stuck_slices(), dirty);
  }

  std::vector<Span*>& live() { return live_; }

 private:
  // Node::grow, without its locks.
  template <typename Plan, typename Use>
  void grow(Plan plan, Use use) {
    for (bool generous = true;;) {
      Growth growth = plan(generous);
      if (growth.missing > 0) {
        if (!region().extend_to(growth.missing, lock_)) return;
        continue;
      }
      if (growth.slices == 0) return;
      near::os::Mapped mapped = region().map_growth(growth);
      if (mapped == near::os::Mapped::occupied && generous) mapped = near::os::Mapped::refused;
      region().end_growth(growth, mapped);
      if (mapped == near::os::Mapped::done) return use(growth);
      if (mapped == near::os::Mapped::refused && !generous) return;
      generous = false;
    }
  }

  // Marks slices as the span's, writes to them, and returns how many were clean.
  uint32_t claim(Span& span, size_t first, uint32_t slices) {
    uint32_t clean = 0;
    for (size_t i = first; i < first + slices; i++) {
      EXPECT_EQ(owner_[i], nullptr) << "slice " << i << " was taken twice";
      EXPECT_FALSE(away_[i]) << "slice " << i << " was taken while it was being purged";
      char* bytes = room_.base() + i * kSliceSize;
      if (!dirty_[i]) {
        clean++;
        EXPECT_TRUE(is_zero(bytes, 64) && is_zero(bytes + kSliceSize - 64, 64));
      }
      std::memset(bytes, 0xa5, 64);
      std::memset(bytes + kSliceSize - 64, 0xa5, 64);
      owner_[i] = &span;
      dirty_[i] = false;
    }
    return clean;
  }

  RegionRoom& room_;
  near::Mutex lock_{near::Rank::node};
  std::vector<Span*> owner_;
  std::vector<bool> dirty_;
  std::vector<bool> away_ = std::vector<bool>(kSlices, false);
  std::vector<Span*> live_;
};

class RegionTest : public testing::TestWithParam<size_t> {
 protected:
  fake_os::PageSize page_size_{GetParam()};
  RegionRoom room_{kChunks};
  Model model_{room_};
  Region& region_ = room_.region();
};

uint32_t any_length(Random& random) {
  switch (random.below(8)) {
    case 0:
      return static_cast<uint32_t>(1 + random.below(150));
    case 1:
    case 2:
      return static_cast<uint32_t>(1 + random.below(32));
    default:
      return static_cast<uint32_t>(1 + random.below(6));
  }
}

TEST_P(RegionTest, RandomOperationsAgreeWithAMap) {
  Random random(seed());
  region_.begin_at(static_cast<unsigned>(random.below(kChunkSlices)));
  auto any_live = [&] { return model_.live()[random.below(model_.live().size())]; };
  for (size_t step = 0; step < scaled(6'000); step++) {
    const uint64_t what = random.below(20);
    if (what < 9 || model_.live().empty()) {
      model_.take(any_length(random), kSliceSize << (random.below(4) == 0 ? random.below(7) : 0));
    } else if (what < 15) {
      model_.give(any_live(), 0, 1);
    } else if (what < 16) {
      Span* span = any_live();
      if (span->slices > 1) {
        model_.give(span, 1 + static_cast<uint32_t>(random.below(span->slices - 1)), 1);
      }
    } else if (what < 18) {
      model_.extend(any_live(), any_length(random));
    } else if (region_.committed_bytes() > 0) {
      const auto chunk = static_cast<uint32_t>(random.below(region_.chunks_end()));
      const auto meanwhile = [&] {
        model_.take(any_length(random));
        if (!model_.live().empty()) model_.give(any_live(), 0, 1);
      };
      if (!region_.is_mapped(chunk)) continue;
      if (region_.chunk(chunk).is_whole()) {
        model_.unmap(chunk, random.below(4) == 0, meanwhile);
      } else {
        model_.purge(chunk, random.below(4) == 0, meanwhile);
      }
    }
    model_.check();
    if (HasFailure()) FAIL() << "step " << step << ", seed " << seed();
    count_cases();
  }
  while (!model_.live().empty()) model_.give(model_.live().back(), 0, 1);
  model_.check();
  EXPECT_EQ(region_.free_slices(), region_.committed_bytes() / kSliceSize);
}

TEST_P(RegionTest, IsFilledToTheLastSlice) {
  while (model_.take(7) != nullptr) count_cases();
  while (model_.take(1) != nullptr) count_cases();
  EXPECT_EQ(region_.committed_bytes(), room_.bytes());
  EXPECT_EQ(region_.free_slices(), 0u);
  model_.check();
  while (!model_.live().empty()) model_.give(model_.live().back(), 0, 1);
  EXPECT_NE(model_.take(kSlices), nullptr) << "one run of everything";
  model_.check();
}

TEST_P(RegionTest, ChunksAreFilledFromTheFirstSliceOn) {
  constexpr uint32_t kFirst = 13;
  region_.begin_at(kFirst);
  for (uint32_t chunk = 0; chunk < 2; chunk++) {
    for (uint32_t i = 0; i < kChunkSlices; i++) {
      const uint32_t slice = (kFirst + i) % kChunkSlices;
      EXPECT_EQ(model_.index_of(model_.take(1)->start), chunk * kChunkSlices + slice);
      count_cases();
    }
  }
  EXPECT_EQ(model_.index_of(model_.take(4)->start), 2 * kChunkSlices + 12);
  model_.check();
}

// A random first slice wastes no room, and chunks that may have huge pages are filled from below.
TEST_P(RegionTest, AFirstSliceWastesNoRoom) {
  for (const uint32_t slices : {1u, 2u, 4u, 8u, 16u}) {
    region_.begin_at(13);
    for (uint32_t i = 0; i < kSlices / slices; i++) ASSERT_NE(model_.take(slices), nullptr);
    EXPECT_EQ(region_.free_slices(), 0u);
    const Span* behind = region_.span_at(room_.base() + 8 * near::kChunkSize);
    EXPECT_EQ(behind->slices, slices);
    while (!model_.live().empty()) model_.give(model_.live().back(), 0, 1);
    count_cases();
  }
  model_.check();
}

TEST_P(RegionTest, GrowsAsItIsNeeded) {
  EXPECT_EQ(region_.committed_bytes(), 0u);
  model_.take(1);
  EXPECT_EQ(region_.committed_bytes(), near::kChunkSize) << "the first slice costs one chunk";
  for (uint32_t i = 1; i < 4 * kChunkSlices; i++) model_.take(1);
  EXPECT_EQ(region_.committed_bytes(), 4 * near::kChunkSize);
  model_.take(3 * kChunkSlices);
  EXPECT_LE(region_.committed_bytes(), 8 * near::kChunkSize);
  EXPECT_EQ(model_.take(kSlices), nullptr);
  model_.check();
  count_cases();
}

TEST_P(RegionTest, FillsTheFullestChunkThatHasRoom) {
  std::vector<Span*> spans;
  for (uint32_t i = 0; i < 3 * kChunkSlices; i++) spans.push_back(model_.take(1));
  // Free runs of 8, 4 and 2 slices in three chunks.
  for (const auto& [chunk, length] : {std::pair{0u, 8u}, std::pair{1u, 4u}, std::pair{2u, 2u}}) {
    for (uint32_t i = 0; i < length; i++) model_.give(spans[chunk * kChunkSlices + 5 + i], 0, 1);
  }
  const auto chunk_of = [&](const Span* span) {
    return model_.index_of(span->start) / kChunkSlices;
  };
  EXPECT_EQ(chunk_of(model_.take(2)), 2u);
  EXPECT_EQ(chunk_of(model_.take(3)), 1u);
  EXPECT_EQ(chunk_of(model_.take(1)), 1u);
  EXPECT_EQ(chunk_of(model_.take(1)), 0u);
  model_.check();
  count_cases(4);
}

// A run of 17 slices in each chunk would leave half of it empty; six runs of 5 leave two slices.
TEST_P(RegionTest, RunsThatFillNoChunkCrossChunks) {
  for (const uint32_t slices : {3u, 5u, 6u, 7u, 9u, 17u, 31u}) {
    RegionRoom room(kChunks);
    Model model(room);
    model.take(1);
    const uint32_t count = kSlices / 2 / slices;
    for (uint32_t i = 0; i < count; i++) model.take(slices);
    size_t end = 0;
    for (const Span* span : model.live()) {
      end = near::max_of(end, model.index_of(span->start) + span->slices);
    }
    EXPECT_EQ(end, 1 + count * slices) << "runs of " << slices << " leave no gaps";
    model.check();
    while (!model.live().empty()) model.give(model.live().back(), 0, 1);
    count_cases();
  }
}

TEST_P(RegionTest, SpansOfClassesLieInOneChunk) {
  for (uint32_t i = 0; i < 25; i++) {
    for (const uint32_t slices : {8u, 5u, 4u, 2u, 3u, 1u}) {
      const Span* span = model_.take(slices);
      ASSERT_NE(span, nullptr);
      const size_t first = model_.index_of(span->start);
      if (!near::lies_in_chunk(slices)) continue;
      EXPECT_EQ(first / kChunkSlices, (first + slices - 1) / kChunkSlices) << slices;
      count_cases();
    }
    if (i % 2 == 0) model_.give(model_.live()[model_.live().size() - 1 - i % 5], 0, 1);
  }
  model_.check();
}

TEST_P(RegionTest, RunsThatAreNotDenseGetSmallPages) {
  const auto pages_of = [&](const Span* span) {
    return region_.chunk(static_cast<uint32_t>(model_.index_of(span->start) / kChunkSlices)).pages;
  };
  for (uint32_t i = 0; i < near::Region::kSmallPageChunks * kChunkSlices; i++) model_.take(1);
  EXPECT_EQ(pages_of(model_.take(17, kSliceSize, false)), near::Pages::split);
  model_.take(10);  // so that no chunk has room for 8
  EXPECT_EQ(pages_of(model_.take(8)), near::Pages::huge);
  EXPECT_EQ(pages_of(model_.take(16, kSliceSize, false)), near::Pages::huge)
      << "the chunk is mapped";
  model_.check();
  count_cases(3);
}

// A sparse run would make all 2 MiB of a huge page resident by its first byte.
TEST_P(RegionTest, ARunThatIsNotDenseOpensNoHugePage) {
  const uint32_t small = near::Region::kSmallPageChunks;
  for (uint32_t i = 0; i < small; i++) model_.take(kChunkSlices);
  Span* full = model_.take(kChunkSlices);
  const auto chunk = static_cast<uint32_t>(model_.index_of(full->start) / kChunkSlices);
  ASSERT_EQ(region_.chunk(chunk).pages, near::Pages::huge);
  model_.give(full, 0, 1);
  model_.take(1, kSliceSize, false);
  EXPECT_EQ(region_.chunk(chunk).pages, near::Pages::huge) << "the page is resident already";
  model_.give(model_.live().back(), 0, 1);
  model_.purge(chunk, false, [] {});
  ASSERT_EQ(region_.chunk(chunk).pages, near::Pages::huge) << "the whole page left";
  Span* sparse = model_.take(1, kSliceSize, false);
  ASSERT_EQ(model_.index_of(sparse->start) / kChunkSlices, chunk);
  EXPECT_EQ(region_.chunk(chunk).pages, near::Pages::split);
  EXPECT_EQ(fake_os::huge_page_advice(sparse->start), 0);
  EXPECT_EQ(sparse->watched, near::Densities::kMayBe);
  EXPECT_EQ(model_.take(1)->watched, near::Densities::kNot) << "a dense run";
  model_.check();
  count_cases(5);
}

// The next dense run would get the rest with small pages.
TEST_P(RegionTest, ARunThatIsNotDenseMapsNoMoreThanItNeeds) {
  const auto chunks_for = [&](bool dense) {
    const size_t before = region_.committed_bytes();
    model_.take(kChunkSlices, kSliceSize, dense);
    return (region_.committed_bytes() - before) / near::kChunkSize;
  };
  for (int i = 0; i < 16; i++) model_.take(kChunkSlices);
  EXPECT_EQ(chunks_for(false), 1u);
  EXPECT_EQ(chunks_for(true), 2u);
  model_.check();
  count_cases(2);
}

// Where the first touch of a huge page is slow, more and more chunks get small pages before a try.
TEST_P(RegionTest, SlowHugePagesAreTriedSeldom) {
  const auto pages_of_next = [&](int chunks) {
    std::string pages;
    for (int i = 0; i < chunks; i++) {
      const size_t slice = model_.index_of(model_.take(kChunkSlices)->start);
      const auto index = static_cast<uint32_t>(slice / kChunkSlices);
      const near::Chunk& chunk = region_.chunk(index);
      pages += chunk.pages == near::Pages::huge ? 'h' : 's';
      EXPECT_EQ(fake_os::huge_page_advice(region_.chunk_start(index)),
                chunk.pages == near::Pages::huge ? 1 : 0);
    }
    return pages;
  };
  EXPECT_EQ(pages_of_next(near::Region::kSmallPageChunks), "s");
  fake_os::set_touch_ns(5'000'000);
  EXPECT_EQ(pages_of_next(7), "hshsshs");
  fake_os::set_touch_ns(300'000);
  EXPECT_EQ(pages_of_next(9), "ssshhhhhh");
  fake_os::set_touch_ns(0);
  model_.check();
  count_cases(3);
}

TEST_P(RegionTest, PrefersDirtySlicesToCleanOnes) {
  std::vector<Span*> spans;
  for (uint32_t i = 0; i < 2 * kChunkSlices; i++) spans.push_back(model_.take(1));
  for (uint32_t i = 0; i < 4; i++) model_.give(spans[i], 0, 1);
  model_.purge(0, false, [] {});
  for (uint32_t i = 0; i < 6; i++) model_.give(spans[kChunkSlices + i], 0, 1);
  Span* taken = model_.take(3);
  EXPECT_EQ(model_.index_of(taken->start) / kChunkSlices, 1u);
  model_.check();
  count_cases();
}

TEST_P(RegionTest, PurgeableChunksAreOldAndDirtyTheOldestFirst) {
  std::vector<Span*> spans;
  for (uint32_t i = 0; i < 4; i++) spans.push_back(model_.take(kChunkSlices));
  EXPECT_EQ(region_.find_purgeable(1000, 0, false), near::kNoChunk);
  model_.give(spans[3], 0, 500);
  model_.give(spans[1], 8, 600);
  model_.give(spans[2], 0, 900);
  EXPECT_EQ(region_.find_purgeable(1000, 0, false), 3u);
  EXPECT_EQ(region_.find_purgeable(1000, 500, false), 3u);
  EXPECT_EQ(region_.find_purgeable(1000, 501, false), near::kNoChunk);
  EXPECT_EQ(region_.find_purgeable(300, 0, false), near::kNoChunk) << "they were stamped since";
  model_.unmap(3, false, [] {});
  EXPECT_EQ(region_.find_purgeable(1000, 0, false), 1u);
  EXPECT_EQ(region_.find_purgeable(1000, 0, true), 2u) << "the wholly free one";
  model_.purge(1, true, [] {});
  region_.record_stuck(1);
  EXPECT_EQ(region_.find_purgeable(1000, 0, false), 2u) << "what was refused waits";
  model_.check();
  EXPECT_EQ(region_.stuck_slices(), kChunkSlices - 8u);
  region_.retry_stuck();
  EXPECT_EQ(region_.stuck_slices(), 0u);
  model_.give(spans[1], 0, 950);
  EXPECT_EQ(region_.find_purgeable(5000 * kDay, ~0u, true), 2u);
  count_cases(11);
}

// Another thread purges the oldest chunk, which becomes dirty again: the next one is found.
TEST_P(RegionTest, WhatIsBeingPurgedIsPassedBy) {
  Span* first = model_.take(kChunkSlices);
  Span* second = model_.take(kChunkSlices);
  model_.give(first, 8, 500);
  model_.purge(0, false, [&] {
    model_.give(first, 4, 700);
    EXPECT_EQ(region_.find_purgeable(1000, 0, false), near::kNoChunk);
    model_.give(second, 0, 800);
    EXPECT_EQ(region_.find_purgeable(1000, 0, false), 1u);
  });
  EXPECT_EQ(region_.find_purgeable(1000, 0, false), 0u);
  model_.check();
  count_cases(3);
}

// In the child of a fork, memory that another thread was purging may or may not hold old bytes.
TEST_P(RegionTest, WhatWasBeingPurgedIsFreeAgainAndDirty) {
  std::vector<Span*> spans;
  for (uint32_t i = 0; i < 3; i++) spans.push_back(model_.take(kChunkSlices));
  region_.give(spans[0], 8, 1);
  region_.give(spans[1], 0, 1);
  const size_t free = region_.free_slices();
  EXPECT_EQ(free, 2 * kChunkSlices - 8u);
  region_.withdraw_dirty(0);
  region_.withdraw_whole(1);
  EXPECT_EQ(region_.free_slices(), 0u);
  region_.restore_withdrawn();
  EXPECT_EQ(region_.free_slices(), free);
  EXPECT_EQ(region_.dirty_slices(), free);
  EXPECT_EQ(region_.find_purgeable(1000, 0, true), 1u);
  EXPECT_EQ(region_.check(), 0u);
  count_cases();
}

// What was mapped of a run before a part of it was refused is unmapped again.
TEST_P(RegionTest, AGrowthThatIsRefusedHalfwayLeavesNothing) {
  std::vector<Span*> spans;
  for (uint32_t i = 0; i < 5; i++) spans.push_back(model_.take(kChunkSlices));
  for (const uint32_t i : {1u, 2u, 3u}) model_.give(spans[i], 0, 1);
  for (const uint32_t i : {1u, 3u}) model_.unmap(i, false, [] {});
  const size_t committed = fake_os::committed_bytes();
  fake_os::fail(OsCall::map, 2, true);  // the second of two holes
  EXPECT_EQ(model_.take(3 * kChunkSlices), nullptr);
  EXPECT_EQ(fake_os::committed_bytes(), committed);
  fake_os::fail_none();
  EXPECT_NE(model_.take(3 * kChunkSlices), nullptr);
  model_.check();
  count_cases(2);
}

TEST_P(RegionTest, ARefusedMappingLeavesItWhole) {
  for (const uint64_t nth : {1u, 2u, 2u}) {  // descriptors, the table, and the chunk
    fake_os::fail(OsCall::map, nth, true);
    EXPECT_EQ(model_.take(1), nullptr);
    EXPECT_EQ(region_.committed_bytes(), 0u);
    EXPECT_EQ(region_.check(), 0u);
  }
  fake_os::fail_none();
  Span* span = model_.take(kChunkSlices);
  ASSERT_NE(span, nullptr);
  fake_os::fail(OsCall::map, 1, true);
  EXPECT_FALSE(region_.extend(span, 1));
  EXPECT_EQ(model_.take(1), nullptr);
  fake_os::fail_none();
  EXPECT_TRUE(model_.extend(span, 1));
  model_.check();
  count_cases(5);
}

// A region maps more than it needs at once; where that is refused, it asks for what it needs.
TEST_P(RegionTest, ARefusedGenerosityIsNoRefusal) {
  for (uint32_t i = 0; i < 16; i++) model_.take(kChunkSlices);
  fake_os::set_commit_limit(fake_os::committed_bytes() + near::kChunkSize + near::kMiB / 2);
  EXPECT_NE(model_.take(kChunkSlices), nullptr);
  fake_os::set_commit_limit(SIZE_MAX);
  model_.check();
  count_cases();
}

TEST_P(RegionTest, AbsentChunksAreMappedAgainTheLowestFirst) {
  std::vector<Span*> spans;
  for (uint32_t i = 0; i < 6; i++) spans.push_back(model_.take(kChunkSlices));
  for (const uint32_t i : {4u, 1u, 2u}) {
    model_.give(spans[i], 0, 1);
    model_.unmap(i, false, [] {});
  }
  EXPECT_EQ(region_.committed_bytes(), 3 * near::kChunkSize);
  const auto chunk_of = [&](const Span* span) {
    return model_.index_of(span->start) / kChunkSlices;
  };
  EXPECT_EQ(chunk_of(model_.take(2 * kChunkSlices)), 1u);
  EXPECT_EQ(chunk_of(model_.take(1)), 4u);
  EXPECT_EQ(region_.committed_bytes(), 6 * near::kChunkSize);
  model_.check();
  count_cases(3);
}

// A chunk whose parts are purged and reused would get a huge page again at its first touch.
TEST_P(RegionTest, AChunkThatWasPurgedInPartsKeepsSmallPagesUntilItIsMappedAgain) {
  Span* first = nullptr;
  Span* rest = nullptr;
  for (uint32_t i = 0; i <= near::Region::kSmallPageChunks; i++) {  // the first have small pages
    first = model_.take(8);
    rest = model_.take(kChunkSlices - 8);
  }
  const auto chunk = static_cast<uint32_t>(model_.index_of(first->start) / kChunkSlices);
  ASSERT_EQ(region_.chunk(chunk).pages, near::Pages::huge);
  model_.give(first, 0, 1);
  model_.purge(chunk, false, [] {});
  ASSERT_EQ(region_.chunk(chunk).pages, near::Pages::split);
  EXPECT_EQ(fake_os::huge_page_advice(rest->start), 0);
  model_.give(rest, 0, 1);
  model_.unmap(chunk, false, [] {});
  Span* again = model_.take(8);
  EXPECT_EQ(model_.index_of(again->start) / kChunkSlices, chunk);
  EXPECT_EQ(region_.chunk(chunk).pages, near::Pages::huge);
  EXPECT_EQ(fake_os::huge_page_advice(again->start), 1);
  model_.check();
  count_cases(3);
}

TEST_P(RegionTest, RunsBeginAndEndInsideChunks) {
  for (uint32_t i = 0; i < 6; i++) model_.take(kChunkSlices + kChunkSlices / 2);
  EXPECT_EQ(region_.committed_bytes(), 9 * near::kChunkSize);
  model_.check();
  count_cases();
}

// The other mapping stays: the region gives up the chunk, and the window ends.
TEST_P(RegionTest, AnotherMappingInTheWayIsLeftAlone) {
  Span* first = model_.take(kChunkSlices);
  fake_os::occupy_next();
  Span* second = model_.take(kChunkSlices);
  EXPECT_TRUE(room_.window().occupied());
  EXPECT_EQ(room_.window().left(), 0u);
  ASSERT_NE(second, nullptr) << "of the chunks that the region has";
  EXPECT_NE(first->start, second->start);
  model_.check();
  count_cases(2);
}

// …also if the other mapping stays.
TEST_P(RegionTest, AChunkThatAnotherMappingKeepsIsGivenUp) {
  model_.take(kChunkSlices);
  const size_t owned = region_.owned_bytes();
  void* other = mmap(region_.chunk_start(1), kSliceSize, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(other, region_.chunk_start(1));
  const Span* span = model_.take(kChunkSlices);
  ASSERT_NE(span, nullptr);
  EXPECT_EQ(span->start, region_.chunk_start(2));
  EXPECT_EQ(region_.chunk(1).presence, near::Presence::lost);
  EXPECT_EQ(region_.owned_bytes(), owned - near::kChunkSize);
  model_.check();
  munmap(other, kSliceSize);
  count_cases();
}

TEST_P(RegionTest, CheckFindsDamage) {
  model_.take(3);
  Span* span = model_.take(5);
  model_.give(span, 0, 1);
  near::Chunk& chunk = room_.chunks()[0];
  const near::Chunk good = chunk;
  const auto damaged = [&](auto damage) {
    damage(chunk);
    const size_t wrong = region_.check();
    chunk = good;
    count_cases();
    return wrong > 0;
  };
  EXPECT_TRUE(damaged([](near::Chunk& c) { c.free |= 1; }));
  EXPECT_TRUE(damaged([](near::Chunk& c) { c.dirty |= 1; }));
  EXPECT_TRUE(damaged([](near::Chunk& c) { c.bucket++; }));
  EXPECT_TRUE(damaged([](near::Chunk& c) { c.in_dirty = false; }));
  model_.check();
}

INSTANTIATE_TEST_SUITE_P(Pages, RegionTest, testing::ValuesIn(kPageSizes));

}  // namespace
}  // namespace near_test

// One shard alone: what it keeps, what it gives back, and when.
#include "node/shard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "node/events.h"
#include "node/purge_signal.h"
#include "platform/options.h"
#include "support/cases.h"
#include "support/fake_clock.h"
#include "support/fake_os.h"
#include "support/parallel.h"
#include "support/pattern.h"
#include "support/region_room.h"

namespace near_test {
namespace {

using near::kMiB;
using near::kSliceSize;
using near::Shard;
using near::Span;

constexpr uint32_t kMiBSlices = kMiB / kSliceSize;

class ShardTest : public testing::TestWithParam<size_t> {
 protected:
  ShardTest() {
    owner_.init(0, 1);
    shard_.add(&rooms_[0].region());
    near::set_option("decay_ms", 600'000);
  }
  ~ShardTest() override {
    near::purge_signal.set_present(false);
    near::set_option("decay_ms", kept_decay_);
    near::set_option("dirty_mib", kept_dirty_);
    fake_os::fail_none();
    EXPECT_EQ(shard_.check(), 0u);
  }

  Span* take(uint32_t slices, bool expect_zero) {
    bool zero = !expect_zero;
    bool refused = false;
    Span* span = shard_.take({slices}, zero, refused);
    EXPECT_NE(span, nullptr);
    EXPECT_EQ(zero, expect_zero);
    return span;
  }
  Span* take(uint32_t slices) {
    bool zero = false;
    bool refused = false;
    Span* span = shard_.take({slices}, zero, refused);
    if (span == nullptr) return nullptr;
    if (zero) {
      EXPECT_TRUE(is_zero(span->start, span->bytes()));
    }
    std::memset(span->start, 1, span->bytes());
    return span;
  }

  // The chunks that are mapped next have huge pages.
  void fill_chunks_with_small_pages() {
    for (uint32_t i = 0; i < near::Region::kSmallPageChunks; i++) take(near::kChunkSlices);
  }

  uint64_t purge_calls() { return shard_.totals().purge_calls; }

  // Takes `bytes` as spans of a mebibyte, and gives them all back.
  void cycle(size_t bytes) {
    std::vector<Span*> spans;
    for (size_t i = 0; i < bytes / kMiB; i++) spans.push_back(take(kMiBSlices));
    for (Span* span : spans) shard_.give(span);
  }

  const long kept_decay_ = near::option(near::Option::decay_ms);
  const long kept_dirty_ = near::option(near::Option::dirty_mib);
  fake_os::PageSize page_size_{GetParam()};
  RegionRoom rooms_[2] = {RegionRoom(64), RegionRoom(4)};
  std::vector<std::unique_ptr<RegionRoom>> more_rooms_;
  near::Node owner_;
  Shard& shard_ = owner_.shard(0);
};

TEST_P(ShardTest, WhatWasGivenBackIsDirtyUntilItIsPurged) {
  near::purge_signal.set_present(true);
  Span* span = take(10, true);
  std::memset(span->start, 1, span->bytes());
  shard_.give(span);
  EXPECT_EQ(shard_.dirty_bytes(), 10 * kSliceSize);
  span = take(10, false);
  shard_.give(span);
  EXPECT_EQ(shard_.purge(0, 0), 10 * kSliceSize);
  EXPECT_EQ(shard_.dirty_bytes(), 0u);
  span = take(10, true);
  EXPECT_TRUE(is_zero(span->start, span->bytes()));
  shard_.give(span);
  count_cases(3);
}

TEST_P(ShardTest, PurgingStopsAtWhatShallBeKept) {
  near::purge_signal.set_present(true);
  cycle(20 * kMiB);
  EXPECT_EQ(shard_.dirty_bytes(), 20 * kMiB);
  const size_t purged = shard_.purge(0, 10 * kMiB);
  EXPECT_EQ(shard_.dirty_bytes(), 20 * kMiB - purged);
  EXPECT_LE(shard_.dirty_bytes(), 10 * kMiB);
  EXPECT_GE(shard_.dirty_bytes(), 8 * kMiB) << "a chunk too much at most";
  EXPECT_EQ(shard_.totals().purged, purged);
  count_cases();
}

TEST_P(ShardTest, PurgingByAgeLeavesWhatIsYoung) {
  near::purge_signal.set_present(true);
  shard_.purge(0, 0);  // also reads the clock
  cycle(6 * kMiB);
  EXPECT_EQ(shard_.purge(10'000, 0), 0u);
  EXPECT_EQ(shard_.dirty_bytes(), 6 * kMiB);
  pass_time(60);
  EXPECT_EQ(shard_.purge(30, 0), 6 * kMiB);
  count_cases(2);
}

// The rest of a huge page is resident, too, once a part of it was written.
TEST_P(ShardTest, TheUnusedPartOfAHugePageLeavesIfItStaysUnused) {
  near::purge_signal.set_present(true);
  fill_chunks_with_small_pages();
  EXPECT_FALSE(shard_.has_unused());
  take(4);
  EXPECT_TRUE(shard_.has_unused());
  EXPECT_EQ(shard_.purge(30, 0), 0u) << "this look is the first";
  pass_time(60);
  take(4);
  EXPECT_EQ(shard_.purge(30, 0), 0u) << "a part was used meanwhile";
  pass_time(20);
  EXPECT_EQ(shard_.purge(30, 0), 0u);
  pass_time(20);
  EXPECT_EQ(shard_.purge(30, 0), 0u) << "now it is dirty";
  EXPECT_FALSE(shard_.has_unused());
  EXPECT_EQ(shard_.dirty_bytes(), 24 * kSliceSize);
  pass_time(40);
  EXPECT_EQ(shard_.purge(30, 0), 24 * kSliceSize);
  take(24, true);
  EXPECT_FALSE(shard_.has_unused()) << "the chunk is split now";
  take(4);
  shard_.purge(0, 0);
  EXPECT_FALSE(shard_.has_unused()) << "a trim does not wait";
  EXPECT_EQ(shard_.dirty_bytes(), 0u);
  count_cases(10);
}

TEST_P(ShardTest, TheUnusedPartOfAHugePageIsForgottenOnceItIsUsedOrFree) {
  near::purge_signal.set_present(true);
  fill_chunks_with_small_pages();
  take(4);
  take(near::kChunkSlices - 4);
  EXPECT_TRUE(shard_.has_unused());
  shard_.purge(30, 0);
  EXPECT_FALSE(shard_.has_unused()) << "the page is full";
  shard_.give(take(4));
  shard_.purge(30, 0);
  EXPECT_FALSE(shard_.has_unused()) << "the chunk is free";
  EXPECT_EQ(shard_.dirty_bytes(), 4 * kSliceSize) << "no more than was used";
  count_cases(3);
}

TEST_P(ShardTest, TheUnusedPartIsLookedAtAlsoIfAnotherChunkIsTakenWhole) {
  near::purge_signal.set_present(true);
  fill_chunks_with_small_pages();
  take(4);
  take(near::kChunkSlices);
  shard_.purge(30, 0);
  pass_time(60);
  shard_.purge(30, 0);
  EXPECT_EQ(shard_.dirty_bytes(), 28 * kSliceSize);
  take(28);
  take(near::kChunkSlices);
  EXPECT_FALSE(shard_.has_unused()) << "all of it was taken at once";
  count_cases(2);
}

TEST_P(ShardTest, TheUnusedPartLeavesWithDirtySlicesOfItsPage) {
  near::purge_signal.set_present(true);
  fill_chunks_with_small_pages();
  Span* span = take(4);
  take(4);
  shard_.give(span);
  pass_time(60);
  EXPECT_EQ(shard_.purge(30, 0), 4 * kSliceSize);
  EXPECT_FALSE(shard_.has_unused()) << "it left, too";
  pass_time(60);
  EXPECT_EQ(shard_.purge(30, 0), 0u);
  EXPECT_EQ(shard_.dirty_bytes(), 0u);
  count_cases(4);
}

// The purge thread would sleep for ever otherwise, if the program frees nothing.
TEST_P(ShardTest, AThreadThatOpensAHugePageWakesThePurgeThread) {
  near::purge_signal.set_present(true);
  fill_chunks_with_small_pages();
  shard_.give(take(near::kChunkSlices));
  near::purge_signal.begin_round();
  take(4);
  const auto start = std::chrono::steady_clock::now();
  near::purge_signal.wait(10'000);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5))
      << "the chunk is mapped: no growth asked";
  count_cases();
}

TEST_P(ShardTest, APurgeEndsBetweenChunksWhenItIsTold) {
  near::purge_signal.set_present(true);
  cycle(20 * kMiB);
  EXPECT_EQ(shard_.purge(0, 0, [] { return true; }), 0u);
  static int looks;
  looks = 0;
  EXPECT_EQ(shard_.purge(0, 0, [] { return ++looks > 3; }), 3 * near::kChunkSize);
  EXPECT_EQ(shard_.dirty_bytes(), 14 * kMiB);
  count_cases(2);
}

// Other threads free as fast as this one purges: it stops after as many chunks as could be dirty
// when it began.
TEST_P(ShardTest, APurgeEndsThoughMemoryBecomesDirtyAgain) {
  near::purge_signal.set_present(true);
  static Shard* shard;
  static Span* spans[2];
  static unsigned looks;
  shard = &shard_;
  looks = 0;
  for (Span*& span : spans) span = take(near::kChunkSlices);
  shard_.give(spans[1], near::kChunkSlices - 1);
  shard_.purge(0, 0, [] {
    Span* other = spans[looks % 2];
    shard->give(other, other->slices - 1);
    return ++looks == 20;
  });
  EXPECT_EQ(looks, 1u);
  for (Span* span : spans) shard_.give(span);
  count_cases();
}

// A node maps more than it needs at once. Where that is refused, or another mapping is in the
// way of the rest, it maps only what it needs.
TEST_P(ShardTest, ARefusedGenerosityIsNoRefusal) {
  for (int i = 0; i < 16; i++) take(near::kChunkSlices);
  fake_os::set_commit_limit(fake_os::committed_bytes() + near::kChunkSize + kMiB / 2);
  EXPECT_NE(take(near::kChunkSlices), nullptr);
  fake_os::set_commit_limit(SIZE_MAX);
  const near::Region& region = rooms_[0].region();
  char* place = region.chunk_start(18);
  void* other =
      mmap(place, kSliceSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(other, place);
  const Span* span = take(near::kChunkSlices);
  EXPECT_EQ(span->start, region.chunk_start(17));
  EXPECT_EQ(region.chunk(18).presence, near::Presence::absent);
  munmap(other, kSliceSize);
  count_cases(2);
}

// The last other thread has ended, and the purge thread with it.
TEST_P(ShardTest, WithoutItsPurgeThreadAProcessKeepsLess) {
  near::purge_signal.set_present(true);
  cycle(40 * kMiB);
  EXPECT_EQ(shard_.dirty_bytes(), 40 * kMiB);
  near::purge_signal.set_present(false);
  shard_.obey_limits();
  EXPECT_LE(shard_.dirty_bytes(), 8 * kMiB);
  count_cases(2);
}

TEST_P(ShardTest, ATrimThatIsRefusedEnds) {
  near::purge_signal.set_present(true);
  cycle(20 * kMiB);
  const size_t committed = shard_.totals().committed;
  fake_os::fail(OsCall::unmap, 1, true);
  shard_.trim(0);
  EXPECT_EQ(shard_.totals().committed, committed);
  EXPECT_EQ(shard_.dirty_bytes(), 0u) << "pages are dropped where chunks cannot be unmapped";
  fake_os::fail_none();
  shard_.trim(0);
  EXPECT_EQ(shard_.totals().committed, 0u);
  count_cases(2);
}

TEST_P(ShardTest, ARefusedPurgeKeepsTheMemoryDirtyAndUsable) {
  near::purge_signal.set_present(true);
  cycle(6 * kMiB);
  fake_os::fail(OsCall::any, 1, true);
  EXPECT_EQ(shard_.purge(0, 0), 0u);
  EXPECT_EQ(shard_.totals().dirty, 6 * kMiB);
  EXPECT_EQ(shard_.dirty_bytes(), 0u) << "and is not tried again and again";
  const uint64_t calls = fake_os::calls(OsCall::any);
  EXPECT_EQ(shard_.purge(0, 0), 0u);
  EXPECT_EQ(fake_os::calls(OsCall::any), calls);
  fake_os::fail_none();
  bool zero = true;
  bool refused = false;
  Span* span = shard_.take({kMiBSlices}, zero, refused);
  EXPECT_FALSE(zero);
  shard_.give(span);
  EXPECT_EQ(shard_.trim(0), 6 * kMiB) << "a trim tries";
  EXPECT_EQ(shard_.totals().dirty, 0u);
  count_cases(3);
}

TEST_P(ShardTest, WithAPurgeThreadAsMuchMayBeDirtyAsWasLiveLately) {
  near::set_option("dirty_mib", 1);
  near::purge_signal.set_present(true);
  cycle(40 * kMiB);
  EXPECT_EQ(purge_calls(), 0u);
  EXPECT_EQ(shard_.dirty_bytes(), 40 * kMiB);
  // A while after its use has shrunk, the node is limited by what it uses now.
  near::set_option("decay_ms", 20);
  for (int i = 0; i < 15; i++) {
    pass_time(30);
    cycle(6 * kMiB);
  }
  EXPECT_GT(purge_calls(), 0u);
  EXPECT_LE(shard_.dirty_bytes(), 12 * kMiB);
  count_cases(2);
}

TEST_P(ShardTest, WithAPurgeThreadTheOptionIsKeptInAnyCase) {
  near::set_option("dirty_mib", 8);
  near::purge_signal.set_present(true);
  cycle(2 * kMiB);
  for (int i = 0; i < 20; i++) cycle(8 * kMiB);
  EXPECT_EQ(purge_calls(), 0u);
  count_cases();
}

// Without a purge thread, memory that is no longer needed is given back at the free itself.
TEST_P(ShardTest, WithoutAPurgeThreadMemoryLeavesAtTheFree) {
  std::vector<Span*> small;
  for (size_t i = 0; i < 40 * kMiBSlices; i++) small.push_back(take(1));
  near::event_ring.next.store(0, near::kRelaxed);
  for (Span* span : small) shard_.give(span);
  EXPECT_LE(shard_.dirty_bytes(), kMiB / 2);
  size_t recorded = 0;
  for (unsigned back = 0; back < near::kEvents; back++) {
    const near::Event event = near::recent_event(back);
    if (event.kind == near::EventKind::purge) recorded += event.bytes;
  }
  EXPECT_EQ(recorded, shard_.totals().purged);
  count_cases(2);
}

TEST_P(ShardTest, ALargeRunMakesRoomForItsLike) {
  cycle(40 * kMiB);
  EXPECT_LE(shard_.dirty_bytes(), 8 * kMiB) << "for eight like the last";
  EXPECT_GE(shard_.dirty_bytes(), 6 * kMiB);
  count_cases();
}

// …but a program that cycles through memory keeps it after a few rounds.
TEST_P(ShardTest, TheLimitGrowsByRegret) {
  size_t rounds = 0;
  for (uint64_t before = ~uint64_t{0}; before != purge_calls() && rounds < 100; rounds++) {
    before = purge_calls();
    cycle(20 * kMiB);
  }
  EXPECT_LT(rounds, 15u) << "20 MiB were still given back and taken again";
  EXPECT_GE(shard_.dirty_bytes(), 15 * kMiB);
  // The limit was learned for 20 MiB, not for any amount.
  cycle(100 * kMiB);
  EXPECT_LE(shard_.dirty_bytes(), 80 * kMiB);
  count_cases(3);
}

// Without a purge thread, old memory is given back on later slow paths.
TEST_P(ShardTest, WithoutAPurgeThreadMemoryDecaysOnSlowPaths) {
  near::set_option("decay_ms", 40);
  Span* old = take(1);
  Span* between = take(near::kChunkSlices - 1);
  Span* young = take(2);  // in the next chunk
  shard_.give(old);
  EXPECT_EQ(shard_.dirty_bytes(), kSliceSize) << "it is young, and not much";
  pass_time(100);
  shard_.give(young);
  shard_.give(take(2, false));  // enough was given for the clock to be read
  EXPECT_EQ(shard_.dirty_bytes(), 2 * kSliceSize);
  take(2, false);  // the young one is left
  shard_.give(between);
  count_cases(2);
}

TEST_P(ShardTest, SpansShrinkAndGrowInPlace) {
  Span* span = take(10);
  Span* behind = take(1);
  EXPECT_FALSE(shard_.extend(span, 1)) << "somebody is behind it";
  shard_.give(behind);
  EXPECT_TRUE(shard_.extend(span, 5));
  EXPECT_EQ(span->slices, 15u);
  shard_.give(span, 2);
  EXPECT_EQ(span->slices, 2u);
  EXPECT_EQ(shard_.totals().in_spans, 2 * kSliceSize);
  EXPECT_TRUE(shard_.extend(span, 64 * near::kChunkSlices - 2)) << "to the end of the region";
  EXPECT_FALSE(shard_.extend(span, 1));
  shard_.give(span);
  EXPECT_EQ(shard_.totals().in_spans, 0u);
  count_cases(5);
}

// A block that grows must not map memory after it while twice what it needs is free elsewhere.
TEST_P(ShardTest, GrowingInPlaceMapsNothingWhereTheSpanCouldMoveAndDouble) {
  constexpr uint32_t kChunk = near::kChunkSlices;
  Span* low = take(4 * kChunk);
  Span* last = take(2 * kChunk);
  const size_t committed = shard_.totals().committed;
  EXPECT_TRUE(shard_.extend(last, kChunk)) << "nothing is free elsewhere";
  EXPECT_GT(shard_.totals().committed, committed);
  shard_.give(last, kChunk);
  shard_.purge(0, 0);
  shard_.give(low);
  const size_t kept = shard_.totals().committed;
  EXPECT_FALSE(shard_.extend(last, kChunk)) << "four chunks are free: twice what it asks for";
  EXPECT_EQ(shard_.totals().committed, kept);
  EXPECT_TRUE(shard_.extend(last, kChunk + 1)) << "moving would leave no room to double";
  shard_.give(last);
  count_cases(5);
}

TEST_P(ShardTest, TheSecondRegionServesWhenTheFirstIsFull) {
  EXPECT_EQ(take(65 * near::kChunkSlices), nullptr);
  shard_.add(&rooms_[1].region());
  std::vector<Span*> spans;
  for (Span* span = nullptr; (span = take(4 * near::kChunkSlices)) != nullptr;) {
    spans.push_back(span);
  }
  ASSERT_EQ(spans.size(), 17u);
  EXPECT_EQ(spans[15]->region, &rooms_[0].region());
  EXPECT_EQ(spans[16]->region, &rooms_[1].region());
  EXPECT_EQ(shard_.totals().in_spans, 136 * kMiB);
  size_t seen = 0;
  shard_.for_each_span([&](const Span&) { seen++; });
  EXPECT_EQ(seen, 136 * kMiBSlices);
  for (Span* span : spans) shard_.give(span);
  shard_.purge(0, 0);
  EXPECT_EQ(shard_.dirty_bytes(), 0u);
  EXPECT_EQ(shard_.totals().committed, 0u);
  EXPECT_EQ(shard_.totals().reserved, 136 * kMiB);
  count_cases(5);
}

// Locked memory cannot be dropped, but it can be unmapped: where dropping pages is refused,
// whole chunks are unmapped.
TEST_P(ShardTest, WhatCannotBeDroppedIsUnmapped) {
  near::purge_signal.set_present(true);
  Span* kept = take(1);
  cycle(6 * kMiB);
  fake_os::fail(OsCall::purge, 1, true);
  EXPECT_EQ(shard_.purge(0, 0), 5 * kMiB) << "but not the chunk that is in use";
  EXPECT_EQ(shard_.totals().committed, 2 * kMiB);
  EXPECT_EQ(shard_.dirty_bytes(), 0u);
  shard_.give(kept);
  EXPECT_EQ(shard_.dirty_bytes(), kMiB + kSliceSize) << "it is whole now";
  shard_.purge(0, 0);
  EXPECT_EQ(shard_.totals().dirty, 0u);
  count_cases(3);
}

TEST_P(ShardTest, WhatIsTrimmedLeavesTheAddressSpace) {
  near::purge_signal.set_present(true);
  const size_t before = fake_os::reserved_bytes();
  cycle(100 * kMiB);
  const size_t tables = fake_os::reserved_bytes() - before - shard_.totals().committed;
  shard_.trim(0);
  EXPECT_EQ(shard_.totals().committed, 0u) << "nor is what was mapped for later kept";
  EXPECT_EQ(fake_os::reserved_bytes() - before, tables);
  EXPECT_LE(tables, 2 * kMiB);
  take(100 * kMiBSlices, true);
  count_cases(2);
}

// The rest of the process needs the room: at most a sixteenth of the limit stays dirty.
TEST_P(ShardTest, UnderALimitLargeRunsLeaveAtOnce) {
  near::purge_signal.set_present(true);
  Span* span = take(20 * kMiBSlices);
  Span* small = take(4 * kMiBSlices);
  Span* last = take(8 * kMiBSlices);
  shard_.give(small);
  EXPECT_EQ(shard_.dirty_bytes(), 4 * kMiB);
  const size_t limit = fake_os::reserved_bytes() + kMiB;
  fake_os::set_address_space_limit(limit);
  shard_.give(span);
  EXPECT_LE(shard_.dirty_bytes(), limit / 16);
  EXPECT_GT(shard_.dirty_bytes() + near::kChunkSize, limit / 16);
  fake_os::set_address_space_limit(16 * kMiB);
  shard_.give(last);
  EXPECT_LE(shard_.dirty_bytes(), kMiB);
  fake_os::set_address_space_limit(SIZE_MAX);
  count_cases(3);
}

// After years of suspension old memory counts as old, and what follows decays as before.
TEST_P(ShardTest, MemoryDecaysAfterYearsAsleep) {
  constexpr uint64_t kOneDay = 86'400'000;
  near::set_option("decay_ms", 1'000);
  for (const uint64_t days : {25, 50, 3'650}) {
    cycle(20 * kMiB);
    pass_time(days * kOneDay);
    for (int i = 0; i < 200; i++) {
      shard_.give(take(kMiBSlices / 2));
      pass_time(100);
    }
    EXPECT_LE(shard_.totals().dirty, kMiB) << days << " days";
    count_cases();
  }
}

TEST_P(ShardTest, ThreadsTakeAndGiveWhileOthersPurge) {
  shard_.add(&rooms_[1].region());
  std::atomic<bool> stop{false};
  Threads threads(3, [&](unsigned t) {
    Random random(seed() + t);
    std::vector<Span*> live;
    for (size_t i = scaled(4'000); i > 0; i--) {
      if (live.size() < 12 && random.below(2) == 0) {
        bool zero = false;
        const auto slices = static_cast<uint32_t>(1 + random.below(40));
        bool refused = false;
        Span* span = shard_.take({slices}, zero, refused);
        if (span == nullptr) continue;
        if (zero) {
          EXPECT_TRUE(is_zero(span->start, 64));
        }
        std::memset(span->start, static_cast<int>(t + 1), 64);
        live.push_back(span);
      } else if (!live.empty()) {
        Span* span = live.back();
        live.pop_back();
        EXPECT_EQ(span->start[63], static_cast<char>(t + 1));
        shard_.give(span);
      }
      count_cases();
    }
    for (Span* span : live) shard_.give(span);
  });
  std::thread purger([&] {
    while (!stop.load()) shard_.purge(0, 0);
  });
  threads.join();
  stop = true;
  purger.join();
  EXPECT_EQ(shard_.totals().in_spans, 0u);
}

// A region may be added while another thread searches the existing regions.
TEST_P(ShardTest, RegionsAreAddedWhileOthersPurge) {
  for (int i = 0; i < 20; i++) more_rooms_.push_back(std::make_unique<RegionRoom>(2));
  std::atomic<bool> stop{false};
  std::thread purger([&] {
    while (!stop.load()) shard_.purge(0, 0);
  });
  for (const auto& room : more_rooms_) {
    shard_.give(take(near::kChunkSlices));
    shard_.add(&room->region());
    count_cases();
  }
  stop = true;
  purger.join();
}

INSTANTIATE_TEST_SUITE_P(Pages, ShardTest, testing::ValuesIn(kPageSizes));

}  // namespace
}  // namespace near_test

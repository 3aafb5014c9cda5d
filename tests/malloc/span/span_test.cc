// One span alone: carving, recognising blocks, giving free pages back; for every class, and pages
// of 4, 16 and 64 KiB.
#include "span/span.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "support/cases.h"
#include "support/fake_os.h"
#include "support/pages.h"
#include "support/pattern.h"

namespace near_test {
namespace {

using near::Block;
using near::kClasses;
using near::kSizeClasses;
using near::SizeClass;
using near::Span;

constexpr unsigned kMaxSlices = 16;
static_assert(kSizeClasses.back().slices <= kMaxSlices);

// A span of one class in its own memory, cold, with an account of what is live.
class Trial {
 public:
  Trial(unsigned size_class, unsigned touched) : size_class_(size_class) {
    span().start = memory_.start();
    span().slices = shape().slices;
    span().touched = static_cast<uint16_t>(touched);
    near::form_span(span(), size_class);
  }

  Span& span() { return spans_[0]; }
  Span& span_of_slice(unsigned slice) { return spans_[slice]; }
  const SizeClass& shape() const { return kSizeClasses[size_class_]; }

  uint32_t number_of(const void* block) {
    return static_cast<uint32_t>(static_cast<const char*>(block) - span().start) / shape().size;
  }
  char* block(uint32_t number) { return span().start + size_t{number} * shape().size; }
  uint64_t seed_of(uint32_t number) const { return size_class_ * 10'000u + number; }

  void carve_all() {
    while (span().uncarved != 0) near::carve(span(), span().local);
  }

  // Takes the blocks that `chosen` selects out of the free list and fills them.
  template <typename Chosen>
  void make_live(Chosen chosen) {
    std::vector<Block*> rest;
    for (Block* at = span().local.front(); at != nullptr; at = at->next()) {
      if (!chosen(number_of(at))) {
        rest.push_back(at);
      } else if (!live_.insert(number_of(at)).second) {
        ADD_FAILURE() << "block " << number_of(at) << " was free and live";
      }
    }
    span().local.clear(span().start);
    for (Block* at : rest) span().local.splice(at, at);
    for (const uint32_t number : live_) fill(block(number), shape().size, seed_of(number));
  }

  // Frees a live block as the owner's thread does.
  void release(uint32_t number) {
    live_.erase(number);
    auto* freed = reinterpret_cast<Block*>(block(number));
    span().local.splice(freed, freed);
  }

  // live + local free + uncarved = capacity, all distinct; live blocks hold what was written.
  void expect_whole() {
    std::set<uint32_t> seen = live_;
    uint32_t on_list = 0;
    near::ListWalk walk(span(), span().local);
    for (; const Block* at = walk.next(); on_list++) {
      ASSERT_TRUE(near::is_block(span(), at));
      ASSERT_TRUE(seen.insert(number_of(at)).second) << "block " << number_of(at) << " twice";
    }
    ASSERT_FALSE(walk.damage().present());
    ASSERT_EQ(near::count_list(span(), span().local), on_list);
    ASSERT_EQ(live_.size() + on_list + near::count_uncarved(span()), shape().capacity);
    for (const uint32_t number : live_) {
      ASSERT_TRUE(holds(block(number), shape().size, seed_of(number)))
          << "block " << number << " of " << shape().size << " bytes";
    }
  }

  // Pages of `page` bytes that hold no byte of a live block.
  std::set<size_t> free_pages(size_t page) {
    std::set<size_t> free;
    for (size_t i = 0; i < span().bytes() / page; i++) free.insert(i);
    for (const uint32_t number : live_) {
      const size_t begin = size_t{number} * shape().size;
      for (size_t i = begin / page; i <= (begin + shape().size - 1) / page; i++) free.erase(i);
    }
    return free;
  }

  Memory memory_{kMaxSlices * near::kSliceSize, near::kChunkSize};
  std::unique_ptr<Span[]> spans_{new Span[kMaxSlices]()};
  unsigned size_class_;
  std::set<uint32_t> live_;
};

TEST(Span, CarvingCoversEachBlockOnce) {
  for (unsigned c = 0; c < kClasses; c++) {
    for (const unsigned touched : {0u, 0xffffu, 0xf0f0u, 1u}) {
      Trial trial(c, touched);
      Span& span = trial.span();
      EXPECT_EQ(near::count_uncarved(span), span.shape().capacity);
      uint32_t before = 0;
      while (span.uncarved != 0) {
        near::carve(span, span.local);
        const uint32_t now = near::count_list(span, span.local);
        ASSERT_GT(now, before) << "nothing was carved";
        // Carving is lazy: it touches untouched memory a page at a time.
        if (touched == 0 && !near::carves_blocks(span.shape())) {
          ASSERT_LE((now - before - 1) * size_t{span.shape().size}, near::kPageSize);
        }
        before = now;
        trial.expect_whole();
        if (HasFatalFailure()) return;
        count_cases();
      }
      EXPECT_EQ(before, span.shape().capacity);
    }
  }
}

TEST(Span, CarvingGoesOnFromWhatTheListHolds) {
  Trial trial(3, 0);
  near::carve(trial.span(), trial.span().local);
  Block* first = trial.span().local.front();
  const uint32_t before = near::count_list(trial.span(), trial.span().local);
  near::carve(trial.span(), trial.span().local);
  const uint32_t after = near::count_list(trial.span(), trial.span().local);
  EXPECT_GT(after, before);
  Block* at = trial.span().local.front();
  for (uint32_t i = after; i > before; i--) at = at->next();
  EXPECT_EQ(at, first);
  count_cases();
}

TEST(Span, EverySliceLeadsBackToTheHead) {
  for (unsigned c = 0; c < kClasses; c++) {
    Trial trial(c, 0);
    for (uint32_t i = 0; i < trial.shape().slices; i++) {
      Span& slice = trial.span_of_slice(i);
      EXPECT_EQ(slice.kind, i == 0 ? near::SpanKind::blocks : near::SpanKind::inside);
      if (i > 0) {
        EXPECT_EQ(slice.back, i);
      }
      count_cases();
    }
  }
}

TEST(Span, OnlyTheStartOfABlockIsABlock) {
  for (unsigned c = 0; c < kClasses; c++) {
    Trial trial(c, 0);
    const SizeClass& shape = trial.shape();
    for (size_t offset = 0; offset < trial.span().bytes(); offset++) {
      const bool start = offset % shape.size == 0 && offset / shape.size < shape.capacity;
      ASSERT_EQ(near::is_block(trial.span(), trial.span().start + offset), start)
          << shape.size << " at " << offset;
    }
    EXPECT_FALSE(near::is_block(trial.span(), trial.span().start - shape.size));
    count_cases();
  }
}

class Purge : public testing::TestWithParam<size_t> {
 protected:
  fake_os::PageSize page_size_{GetParam()};

  void purge_as_another_thread(Trial& trial);

  // Gives pages back, and checks that these were all free pages, and nothing else.
  void purge_and_check(Trial& trial) {
    Span& span = trial.span();
    const uint32_t uncarved_before = span.uncarved;
    const size_t page = GetParam();
    const std::set<size_t> free = trial.free_pages(page);
    near::Damage damage{};
    span.tried = 1;
    const size_t bytes = near::purge_free_pages(span, damage);
    ASSERT_EQ(span.tried, bytes > 0 ? 0 : 1) << "marks are lost where links are written anew";
    ASSERT_FALSE(damage.present());
    trial.expect_whole();
    if (HasFatalFailure()) return;
    uint32_t expected = uncarved_before;
    for (uint32_t unit = 0; unit < near::kSliceSize / near::kPageSize; unit++) {
      const size_t first = near::div_up(unit * near::kPageSize, trial.shape().size);
      const size_t next = near::div_up((unit + 1) * near::kPageSize, trial.shape().size);
      const bool has_blocks = first < near::min_of(next, trial.shape().capacity);
      if (has_blocks && free.count(unit * near::kPageSize / page) != 0) {
        expected |= uint32_t{1} << unit;
      }
    }
    ASSERT_EQ(span.uncarved, expected) << trial.shape().size;
    const auto fresh = static_cast<size_t>(std::popcount(expected & ~uncarved_before));
    ASSERT_EQ(bytes, fresh * near::kPageSize);
    if (bytes == 0) return;
    for (const size_t index : free) {
      ASSERT_TRUE(is_zero(span.start + index * page, page)) << "a free page kept its contents";
    }
    count_cases();
  }
};

void Purge::purge_as_another_thread(Trial& trial) {
  Span& span = trial.span();
  const std::set<size_t> free = trial.free_pages(GetParam());
  near::Damage damage{};
  span.tried = 1;
  const size_t bytes = near::purge_behind_first(span, damage);
  ASSERT_EQ(span.tried, bytes > 0 ? 0 : 1) << "marks are lost where links are written anew";
  ASSERT_FALSE(damage.present());
  trial.expect_whole();
  ASSERT_LE(bytes, free.size() * GetParam());
  ASSERT_EQ(near::purge_behind_first(span, damage), 0u) << "it was given back just now";
  for (const size_t index : free) {
    const size_t first = index * GetParam();
    ASSERT_TRUE(is_zero(span.start + first, GetParam())) << "a free page kept its contents";
  }
}

TEST_P(Purge, KeepsLiveBlocksAndLosesNone) {
  Random random(seed());
  for (unsigned c = 0; kSizeClasses[c].size < near::kPageSize; c++) {
    for (int round = 0; round < 6; round++) {
      Trial trial(c, round % 2 == 0 ? 0xffff : 0);
      if (round < 4) {
        trial.carve_all();
      } else {
        for (uint64_t i = random.below(6); i > 0 && trial.span().uncarved != 0; i--) {
          near::carve(trial.span(), trial.span().local);
        }
      }
      // Live blocks lie in a few stretches, so that whole pages of every size are free between
      // them.
      const uint64_t stretches = random.below(4);
      std::vector<uint32_t> from;
      for (uint64_t i = 0; i < stretches; i++) {
        from.push_back(static_cast<uint32_t>(random.below(trial.shape().capacity)));
      }
      const auto length = static_cast<uint32_t>(1 + random.below(trial.shape().capacity / 8 + 1));
      trial.make_live([&](uint32_t number) {
        bool live = false;
        for (const uint32_t first : from) live |= number >= first && number < first + length;
        return live;
      });
      purge_and_check(trial);
      // What was given back can be carved again, now or after a second purge.
      if (trial.span().uncarved != 0 && random.below(2) == 0) {
        near::carve(trial.span(), trial.span().local);
        purge_and_check(trial);
      }
      trial.carve_all();
      trial.expect_whole();
      if (HasFailure()) FAIL() << "class of " << trial.shape().size << ", seed " << seed();
    }
  }
}

TEST_P(Purge, ASpanWithABlockOnEveryPageKeepsAll) {
  Trial trial(7, 0);
  trial.carve_all();
  trial.make_live([](uint32_t number) { return number % 8 == 0; });
  const uint64_t before = fake_os::calls(OsCall::purge);
  near::Damage damage{};
  EXPECT_EQ(near::purge_free_pages(trial.span(), damage), 0u);
  EXPECT_FALSE(damage.present());
  EXPECT_EQ(fake_os::calls(OsCall::purge), before);
  trial.expect_whole();
  count_cases();
}

TEST_P(Purge, ARefusalLosesNoBlock) {
  Trial trial(5, 0);
  trial.carve_all();
  trial.make_live([](uint32_t number) { return number < 3; });
  fake_os::fail(OsCall::purge, 1, true);
  near::Damage damage{};
  near::purge_free_pages(trial.span(), damage);
  fake_os::fail_none();
  trial.expect_whole();
  trial.carve_all();
  trial.expect_whole();
  count_cases();
}

// Another thread than the owner's gives pages back: of any class. Then the owner frees blocks, also
// with a push that began before, and takes blocks.
TEST_P(Purge, BehindTheFirstBlockKeepsLiveBlocksAndLosesNone) {
  Random random(seed());
  for (unsigned c = 0; c < kClasses; c++) {
    for (int round = 0; round < 6; round++) {
      Trial trial(c, 0);
      trial.carve_all();
      const uint32_t capacity = trial.shape().capacity;
      const auto from = static_cast<uint32_t>(random.below(capacity));
      const auto length = static_cast<uint32_t>(1 + random.below(capacity / 8 + 1));
      trial.make_live([&](uint32_t number) { return number >= from && number < from + length; });
      Span& span = trial.span();
      if (span.local.is_empty()) continue;
      const uintptr_t head = span.local.head();
      ASSERT_NO_FATAL_FAILURE(purge_as_another_thread(trial));
      ASSERT_EQ(span.local.head(), head) << "the owner's push may have read it";
      for (uint32_t i = 0; i < 3 && !trial.live_.empty(); i++) {
        trial.release(*trial.live_.begin());
        trial.expect_whole();
        if (random.below(2) == 0) {
          ASSERT_NO_FATAL_FAILURE(purge_as_another_thread(trial));
        }
      }
      near::drop_ghost(span);
      trial.expect_whole();
      EXPECT_EQ(span.ghost.block, 0u);
      trial.carve_all();
      trial.expect_whole();
      if (HasFailure()) FAIL() << "class of " << trial.shape().size << ", seed " << seed();
      count_cases();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, Purge, testing::ValuesIn(kPageSizes));

}  // namespace
}  // namespace near_test

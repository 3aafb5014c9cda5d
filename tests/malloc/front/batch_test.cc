// near_free_batch against near_free of each: the same lists, the same reports, fewer steps.
#include "front/batch.h"

#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "front/front.h"
#include "support/cases.h"
#include "support/parted.h"
#include "support/pattern.h"
#include "support/said_of.h"
#include "support/threads.h"

namespace near_test {
namespace {

using near::kClasses;
using near::kSizeClasses;
using Blocks = std::vector<void*>;

class FreeBatch : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(near_check(), 0u); }
};

size_t free_batch(const Blocks& blocks) { return near_free_batch(blocks.data(), blocks.size()); }

Blocks allocate(size_t number, size_t size) {
  Blocks blocks;
  for (size_t i = 0; i < number; i++) {
    blocks.push_back(near_malloc(size));
    fill(blocks.back(), size, i);
  }
  return blocks;
}

void shuffle(Blocks& blocks, Random& random) {
  for (size_t i = blocks.size(); i > 1; i--) std::swap(blocks[i - 1], blocks[random.below(i)]);
}

near::Span* head_of(const void* block) {
  near::Span* span = near::span_of(block);
  return span->kind == near::SpanKind::inside ? span - span->back : span;
}

size_t spans_of(const Blocks& blocks) {
  std::set<const near::Span*> spans;
  for (const void* block : blocks) spans.insert(head_of(block));
  return spans.size();
}

size_t double_frees_in(const std::string& said) {
  size_t found = 0;
  for (size_t at = 0; (at = said.find("double free", at)) != std::string::npos; at++) found++;
  return found;
}

TEST_F(FreeBatch, OfNothingDoesNothing) {
  EXPECT_EQ(near_free_batch(nullptr, 0), 0u);
  EXPECT_EQ(free_batch({nullptr, nullptr}), 0u);
  void* block = near_malloc(10);
  EXPECT_EQ(free_batch({nullptr, block, nullptr}), 1u);
  count_cases(3);
}

TEST_F(FreeBatch, LeavesTheOrderThatFreesOneByOneLeave) {
  for (unsigned c = 0; c < kClasses; c++) {
    const size_t size = kSizeClasses[c].size;
    Blocks blocks = allocate(6, size);  // the last one stays, and so does the span
    while (spans_of(blocks) > 1) blocks = allocate(6, size);  // the rest assumes a single span
    EXPECT_EQ(free_batch({blocks[2], blocks[0], blocks[4], blocks[1], blocks[3]}), 1u) << size;
    for (const size_t next : {size_t{3}, size_t{1}, size_t{4}, size_t{0}, size_t{2}})
      EXPECT_EQ(near_malloc(size), blocks[next]) << size;
    free_batch(blocks);
    count_cases();
  }
}

TEST_F(FreeBatch, OfEveryClassReachesItsEventsOnce) {
  Random random(seed());
  near_malloc_trim(0);
  near_stats before;
  near_get_stats(&before);
  for (unsigned c = 0; c < kClasses; c++) {
    for (const size_t at_once : {size_t{1}, size_t{7}, size_t{64}, size_t{100'000}}) {
      Blocks blocks = allocate(size_t{3} * kSizeClasses[c].capacity, kSizeClasses[c].size);
      // In order of address, one batch makes a count pass several events at once.
      random.below(2) == 0 ? shuffle(blocks, random) : std::sort(blocks.begin(), blocks.end());
      for (size_t i = 0; i < blocks.size(); i += at_once) {
        near_free_batch(&blocks[i], std::min(at_once, blocks.size() - i));
      }
      ASSERT_EQ(near_check(), 0u) << kSizeClasses[c].size << " by " << at_once;
      count_cases();
    }
  }
  near_malloc_trim(0);
  near_stats after;
  near_get_stats(&after);
  EXPECT_LE(after.in_spans, before.in_spans) << "every span left";
}

TEST_F(FreeBatch, MakesOneGroupOfAnOwnersSpanAndMoreOnlyBeyondItsTable) {
  constexpr size_t kEach = 64;  // of 1 KiB
  Random random(seed());
  Worker owner;
  for (const size_t spans : {1u, 2u, 8u, 62u, 63u}) {
    Blocks blocks;
    owner([&] { blocks = allocate(spans * kEach, 1024); });
    const size_t present = spans_of(blocks);
    EXPECT_LE(present, spans + 1);
    shuffle(blocks, random);
    EXPECT_EQ(free_batch(blocks), present);
    count_cases();
  }
  for (const bool in_order : {true, false}) {
    Blocks many;
    owner([&] { many = allocate(200 * kEach, 1024); });
    const size_t present = spans_of(many);
    in_order ? std::sort(many.begin(), many.end()) : shuffle(many, random);
    const size_t groups = free_batch(many);
    EXPECT_EQ(groups == present, in_order);
    EXPECT_GE(groups, present);
    EXPECT_LT(groups, many.size());
    count_cases();
  }
}

TEST_F(FreeBatch, IsCountedWithWhatItCausesAtTheOwner) {
  constexpr size_t kBlocks = 64;  // of 1 KiB: they fill a span or two
  near_stats before, freed, after;
  near_get_stats(&before);
  Worker owner;
  Blocks theirs;
  owner([&] { theirs = allocate(kBlocks, 1024); });
  const size_t spans = free_batch(theirs);
  near_get_stats(&freed);
  EXPECT_EQ(freed.free_batch_remote - before.free_batch_remote, spans);
  EXPECT_GT(freed.refills, before.refills);
  EXPECT_EQ(freed.remote_blocks, before.remote_blocks) << "nobody took them back yet";
  // An allocation of another class: its slow path empties the inbox.
  owner([&] { near_free_batch(allocate(1, 64).data(), 1); });
  near_get_stats(&after);
  EXPECT_EQ(after.remote_blocks - before.remote_blocks, kBlocks);
  EXPECT_EQ(after.free_batch_remote, freed.free_batch_remote);
  owner([&] { theirs = allocate(1, 1024); });
  free_batch(theirs);
  near_get_stats(&after);
  EXPECT_EQ(after.free_batch_remote, freed.free_batch_remote + 1) << "a batch of one";

  Blocks own = allocate(4096, 1024);
  free_batch(own);
  near_get_stats(&freed);
  EXPECT_GT(freed.span_events, after.span_events) << "spans became free";
  EXPECT_EQ(freed.free_batch_remote, after.free_batch_remote);
  count_cases(2);
}

TEST_F(FreeBatch, MakesOneGroupOfNeighboursInAnOwnSpan) {
  Random random(seed());
  Blocks blocks = allocate(640, 1024);
  std::sort(blocks.begin(), blocks.end());
  EXPECT_EQ(free_batch(blocks), spans_of(blocks));
  blocks = allocate(640, 1024);
  size_t runs = 1;
  shuffle(blocks, random);
  for (size_t i = 1; i < blocks.size(); i++) runs += head_of(blocks[i]) != head_of(blocks[i - 1]);
  EXPECT_EQ(free_batch(blocks), runs);
  count_cases(2);
}

TEST_F(FreeBatch, SendsASpansBlocksHomeWithOneDelivery) {
  for (unsigned c = 0; c < kClasses; c++) {
    const size_t size = kSizeClasses[c].size;
    Worker owner;
    Blocks blocks;
    owner([&] {
      part_classes();
      blocks = allocate(std::max<size_t>(kSizeClasses[c].capacity, 8) * 2, size);
    });
    const Blocks last = {blocks[blocks.size() - 1], blocks[blocks.size() - 2]};
    Blocks half;  // each span keeps live blocks: an empty one would leave the heap
    Blocks rest;
    for (size_t i = 0; i + 2 < blocks.size(); i++) (i % 2 == 0 ? half : rest).push_back(blocks[i]);
    const near::Span* span = head_of(half[0]);
    EXPECT_EQ(free_batch(half), spans_of(half)) << size;
    EXPECT_GT(span->remote.count(), 0u);
    EXPECT_EQ(free_batch(last), spans_of(last));
    const std::set<void*> sent(half.begin(), half.end());
    owner([&] {
      Blocks again;
      size_t back = 0;
      for (size_t i = 0; i < 8 * half.size(); i++) {
        again.push_back(near_malloc(size));
        back += sent.count(again.back());
      }
      EXPECT_GT(back, half.size() / 2) << size;
      free_batch(again);
      EXPECT_EQ(near_check(), 0u);
    });
    free_batch(rest);
    count_cases();
  }
}

TEST_F(FreeBatch, TakesAnyMixture) {
  Worker other;
  Blocks blocks;
  Random random(seed());
  other([&] {
    for (size_t i = 0; i < 300; i++) blocks.push_back(near_malloc(random.size_up_to(17)));
  });
  for (size_t i = 0; i < 300; i++) {
    blocks.push_back(near_malloc(random.size_up_to(17)));
    if (i % 10 == 0) blocks.push_back(nullptr);
    if (i % 50 == 0) blocks.push_back(near_malloc(near::kMiB));
    if (i % 60 == 0) blocks.push_back(near_aligned_alloc(4096, 5'000));
  }
  shuffle(blocks, random);
  errno = 77;
  EXPECT_LT(free_batch(blocks), blocks.size());
  EXPECT_EQ(errno, 77);
  other([] { EXPECT_EQ(near_check(), 0u); });
  count_cases();
}

TEST_F(FreeBatch, ReportsTheDoubleFreesThatFreeReports) {
  for (const size_t size : {size_t{10}, size_t{500}, size_t{5'000}, size_t{30'000}}) {
    Blocks blocks = allocate(8, size);
    void* elsewhere = near_malloc(100);
    // A block twice in a row, and again after another span's block.
    EXPECT_EQ(double_frees_in(said_of(
                  [&] { free_batch({blocks[0], blocks[0], elsewhere, blocks[0], blocks[1]}); })),
              2u)
        << size;
    // First the block that was freed last, then others, which are freed.
    EXPECT_EQ(double_frees_in(said_of([&] { free_batch({blocks[1], blocks[2], blocks[3]}); })), 1u);
    EXPECT_EQ(double_frees_in(said_of([&] { free_batch({blocks[3]}); })), 1u);
    // Another thread does the same: the list is then the remote one.
    EXPECT_EQ(double_frees_in(said_of([&] {
                std::thread([&] {
                  free_batch({blocks[4]});
                  free_batch({blocks[4], blocks[5], blocks[6]});
                  free_batch({blocks[6]});
                }).join();
              })),
              2u)
        << size;
    free_batch({blocks[7]});
    EXPECT_EQ(near_check(), 0u);
  }
}

TEST_F(FreeBatch, ReportsAnyDoubleFreeInTheCheckBuild) {
  if (!near::kCheckBuild) GTEST_SKIP() << "this is not the check build";
  for (const size_t size : {size_t{10}, size_t{500}, size_t{5'000}, size_t{30'000}}) {
    Blocks blocks = allocate(40, size);
    EXPECT_EQ(double_frees_in(said_of([&] {
                free_batch({blocks[0], blocks[1], blocks[2], blocks[0], blocks[1]});
                free_batch({blocks[3], blocks[1], blocks[4]});
                std::thread([&] { free_batch({blocks[2], blocks[5], blocks[0]}); }).join();
              })),
              5u)
        << size;
    EXPECT_EQ(near_check(), 0u);
    free_batch({blocks.begin() + 6, blocks.end()});
  }
}

TEST_F(FreeBatch, ReportsWhatIsNoBlockAndFreesTheRest) {
  for (const size_t size : {size_t{100}, size_t{20'000}}) {
    Blocks blocks = allocate(6, size);
    auto* large = static_cast<char*>(near_malloc(near::kMiB));
    int here = 0;
    const std::string said = said_of([&] {
      free_batch({blocks[0], static_cast<char*>(blocks[1]) + 16, blocks[2], large + 16, &here,
                  static_cast<char*>(blocks[1]) + 1, blocks[3], large + near::kSliceSize});
    });
    size_t reports = 0;
    for (size_t at = 0; (at = said.find("invalid free of", at)) != std::string::npos; at++)
      reports++;
    EXPECT_EQ(reports, 5u) << said;
    EXPECT_TRUE(holds(blocks[1], size, 1));
    EXPECT_EQ(double_frees_in(said_of([&] { free_batch({blocks[3]}); })), 1u) << "it was freed";
    EXPECT_LE(free_batch({blocks[1], blocks[4], blocks[5], large}), 4u);
  }
}

TEST_F(FreeBatch, IsCountedWithAHeapAndWithout) {
  near_stats before;
  near_get_stats(&before);
  Blocks blocks = allocate(100, 64);
  const size_t groups = free_batch({blocks.begin(), blocks.begin() + 50});
  size_t elsewhere = 0;
  std::thread([&] {
    EXPECT_FALSE(near::has_heap());
    elsewhere = free_batch({blocks.begin() + 50, blocks.end()});
    EXPECT_FALSE(near::has_heap());
  }).join();
  near_stats after;
  near_get_stats(&after);
  EXPECT_EQ(after.free_batches, before.free_batches + 2);
  EXPECT_EQ(after.free_batch_blocks, before.free_batch_blocks + 100);
  EXPECT_EQ(after.free_batch_groups, before.free_batch_groups + groups + elsewhere);
  count_cases();
}

// Random lives in two threads, freed by either, one by one and at once; some batches shrink the
// heaps enough for sweeps and for the purge of pages.
TEST_F(FreeBatch, KeepsEveryLiveBlockWhole) {
  struct Live {
    void* start;
    size_t size;
    uint64_t pattern;
  };
  Random random(seed());
  Worker other;
  std::vector<Live> live;
  const auto free_some = [&](size_t number) {
    Blocks batch;
    for (; number > 0 && !live.empty(); number--) {
      Live& each = live[random.below(live.size())];
      EXPECT_TRUE(holds(each.start, each.size, each.pattern));
      batch.push_back(each.start);
      each = live.back();
      live.pop_back();
    }
    free_batch(batch);
  };
  const auto allocate_some = [&](size_t number, unsigned bits) {
    for (size_t i = 0; i < number; i++) {
      const size_t size = random.size_up_to(bits);
      live.push_back({near_malloc(size), size, random.next()});
      fill(live.back().start, size, live.back().pattern);
    }
  };
  for (size_t round = 0; round < scaled(400); round++) {
    const std::function<void()> step = [&] {
      const size_t what = random.below(8);
      if (what < 4) return allocate_some(random.below(2'000), what == 0 ? 16 : 9);
      free_some(what == 7 ? live.size() * 9 / 10 : random.below(1'500));
    };
    random.below(2) == 0 ? step() : other(step);
    if (round % 16 == 0 && near_check() != 0) FAIL() << "round " << round << ", seed " << seed();
    count_cases();
  }
  free_some(live.size());
}

}  // namespace
}  // namespace near_test

// One heap: the states of its spans and the moves between them.
#include "heap/heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "front/front.h"
#include "platform/os.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/heap_room.h"
#include "support/pattern.h"

namespace near_test {
namespace {

using near::Heap;
using near::kClasses;
using near::kSizeClasses;
using near::Span;
using near::SpanKind;

class HeapTest : public testing::Test {
 protected:
  void SetUp() override {
    near::start_library();
    near::clean_heaps(true);
    in_spans_before_ = near::nodes[0].totals().in_spans;
    room_ = std::make_unique<HeapRoom>();
    room_->flush();
  }

  // Afterwards the heap holds nothing, and the node has all of it back.
  void TearDown() override {
    if (room_ == nullptr) return;
    while (!room_->live().empty()) room_->free(room_->live().begin()->first);
    room_->flush();
    EXPECT_TRUE(room_->spans().empty());
    EXPECT_EQ(near::nodes[0].totals().in_spans, in_spans_before_);
    EXPECT_EQ(near::nodes[0].check(), 0u);
  }

  Heap& heap() { return room_->heap(); }

  // Fills `count` spans of a class; all except the last are cold then. Returns their blocks by
  // span.
  std::vector<std::vector<char*>> fill_spans(unsigned size_class, size_t count) {
    std::vector<std::vector<char*>> spans(count);
    for (auto& blocks : spans) {
      do {
        blocks.push_back(room_->take(size_class));
      } while (blocks.size() < room_->span_of(blocks[0]).shape().capacity);
      for (char* block : blocks) EXPECT_EQ(&room_->span_of(block), &room_->span_of(blocks[0]));
    }
    return spans;
  }

  size_t in_spans() { return near::nodes[0].totals().in_spans - in_spans_before_; }

  size_t in_spans_before_ = 0;
  std::unique_ptr<HeapRoom> room_;
};

// Where many threads hold a few blocks of each size, huge pages would make whole spans resident.
TEST_F(HeapTest, AHeapAsksForHugePagesBehindItsFirst128Spans) {
  std::vector<Span*> others;
  bool zero = false;
  while (Span* span = heap().shard().take_mapped({1}, zero)) others.push_back(span);
  const auto huge_spans = [&](size_t spans) {
    const auto blocks = fill_spans(kMedium, spans);
    return std::count_if(blocks.begin(), blocks.end(),
                         [](const auto& each) { return fake_os::huge_page_advice(each[0]) == 1; });
  };
  EXPECT_EQ(huge_spans(128), 0);
  while (Span* span = heap().shard().take_mapped({1}, zero)) others.push_back(span);
  EXPECT_EQ(huge_spans(32), 32);
  for (Span* span : others) near::shard_of(*span).give(span);
  count_cases(160);
}

TEST_F(HeapTest, RandomTakesAndFreesKeepTheInvariants) {
  Random random(seed());
  for (size_t step = 0; step < scaled(40'000); step++) {
    // Phases that grow, stay and shrink.
    const bool grow = random.below(100) < (step / 5'000 % 3 == 0 ? 70u : 45u);
    if (grow || room_->live().empty()) {
      const auto size_class = static_cast<unsigned>(random.below(kClasses));
      ASSERT_NE(room_->take(size_class), nullptr);
    } else {
      auto victim = room_->live().begin();
      std::advance(victim,
                   static_cast<long>(random.below(std::min<size_t>(room_->live().size(), 64))));
      if (random.below(3) == 0) {
        room_->free_remotely(victim->first);
      } else {
        room_->free(victim->first);
      }
    }
    if (step % 1'000 == 0) room_->expect_whole();
    if (random.below(2'000) == 0) room_->flush();
    if (random.below(500) == 0) {
      const near::LockGuard guard(heap().lock);
      heap().claim_for_sleeper();
    }
    if (HasFailure()) FAIL() << "step " << step << ", seed " << seed();
    count_cases();
  }
  room_->expect_whole();
}

TEST_F(HeapTest, EveryClassGivesAllBlocksOfASpanBeforeTheNext) {
  for (unsigned c = 0; c < kClasses; c++) {
    fill_spans(c, 2);
    room_->expect_whole();
    while (!room_->live().empty()) room_->free(room_->live().begin()->first);
    room_->expect_whole();
    count_cases();
  }
}

// A heap's first four spans of a class are short, and each that leaves makes room for another.
TEST_F(HeapTest, TheFirstSpansOfAClassAreShort) {
  for (const unsigned c : {near::class_of(5'000), near::class_of(20'000), kLargest}) {
    auto spans = fill_spans(c, 6);
    for (size_t i = 0; i < 6; i++) {
      const Span& span = room_->span_of(spans[i][0]);
      EXPECT_EQ(span.is_short(), i < 4) << kSizeClasses[c].size;
      EXPECT_EQ(span.slices, (i < 4 ? near::kShortSpans : kSizeClasses)[c].slices);
    }
    for (char* block : spans[1]) room_->free(block);
    room_->expect_whole();
    EXPECT_TRUE(room_->span_of(fill_spans(c, 1)[0][0]).is_short());
    EXPECT_FALSE(room_->span_of(fill_spans(c, 1)[0][0]).is_short());
    while (!room_->live().empty()) room_->free(room_->live().begin()->first);
    room_->flush();
    count_cases();
  }
}

// The sizes 144 and 160, 176 and 192, …, 1920 and 2048.
TEST_F(HeapTest, PairsOfClassesPartWithTheThirdSpan) {
  near::ClassTable& table = heap().class_of_small;
  table.begin();
  for (unsigned c = 0; c < kClasses; c++) {
    const size_t size = kSizeClasses[c].size;
    const bool joins = size > 128 && size <= 2'048 && near::class_of(129) % 2 != c % 2;
    ASSERT_EQ(table.serves_two(c), joins) << size;
    if (!joins) continue;
    const size_t smaller = kSizeClasses[c - 1].size;
    fill_spans(c, 2);
    EXPECT_EQ(table.in_use(c - 1), c);
    room_->take(c);
    EXPECT_EQ(table.in_use(c - 1), c - 1);
    EXPECT_EQ(table.in_use(c), c);
    if (size <= near::kSmallMax) {
      EXPECT_NE(table[kSizeClasses[c - 2].size], c - 1);
      EXPECT_EQ(table[kSizeClasses[c - 2].size + 1], c - 1);
      EXPECT_EQ(table[smaller], c - 1);
      EXPECT_EQ(table[smaller + 1], c);
    }
    while (!room_->live().empty()) room_->free(room_->live().begin()->first);
    EXPECT_FALSE(table.serves_two(c)) << "for ever";
    count_cases();
  }
}

TEST_F(HeapTest, APairMayPartWhileItsClassesAreClosed) {
  near::ClassTable& table = heap().class_of_small;
  table.begin();
  table.close_all();
  table.part(near::class_of(160));
  for (size_t size = 0; size <= near::kSmallMax; size++) ASSERT_EQ(table[size], near::kEmptyBin);
  table.open(near::class_of(144));
  for (size_t size = 0; size <= near::kSmallMax; size++) {
    const bool is_open = near::kClassOfSmall[size] == near::class_of(144);
    ASSERT_EQ(table[size], is_open ? near::class_of(144) : near::kEmptyBin) << size;
  }
  table.open_all();
  EXPECT_EQ(table[144], near::class_of(144));
  EXPECT_EQ(table[176], near::class_of(192)) << "the other pairs stay joined";
  count_cases();
}

TEST_F(HeapTest, TheBlockFreedLastIsGivenOutFirst) {
  for (unsigned c = 0; c < kClasses; c++) {
    char* first = room_->take(c);
    char* second = room_->take(c);
    room_->take(c);  // it stays, and so does the span
    room_->free(first);
    room_->free(second);
    EXPECT_EQ(room_->take(c), second);
    EXPECT_EQ(room_->take(c), first);
    count_cases();
  }
}

TEST_F(HeapTest, ASpanIsHotThenColdThenReusableThenGone) {
  auto spans = fill_spans(kSmall, 2);
  Span& span = room_->span_of(spans[0][0]);
  EXPECT_FALSE(heap().is_hot(span));
  EXPECT_TRUE(heap().is_hot(room_->span_of(spans[1][0])));
  EXPECT_FALSE(span.reusable);
  EXPECT_EQ(span.frees.freed(), 0u);
  const uint32_t reuse_at = span.shape().reuse_at;
  for (uint32_t i = 0; i < span.shape().capacity; i++) {
    EXPECT_EQ(span.reusable, i >= reuse_at) << i;
    EXPECT_EQ(span.kind, SpanKind::blocks);
    room_->free(spans[0][i]);
    if (i < span.shape().capacity - 1u) room_->expect_whole();
    if (HasFatalFailure()) return;
    count_cases();
  }
  EXPECT_EQ(span.kind, SpanKind::none);
  EXPECT_FALSE(span.remote.look().is_open());
  EXPECT_EQ(span.owner.load(), nullptr);
  EXPECT_FALSE(span.reusable);
}

TEST_F(HeapTest, AReusableSpanIsPreferredToANewOne) {
  auto spans = fill_spans(kSmall, 3);
  Span& span = room_->span_of(spans[0][0]);
  for (uint32_t i = 0; i < span.shape().reuse_at; i++) room_->free(spans[0][i]);
  const size_t before = in_spans();
  for (uint32_t i = 0; i < span.shape().reuse_at; i++) {
    EXPECT_EQ(&room_->span_of(room_->take(kSmall)), &span);
  }
  EXPECT_EQ(in_spans(), before);
  EXPECT_NE(&room_->span_of(room_->take(kSmall)), &span);
  count_cases();
}

// A small class does not count what it hands out: the heap looks at the hot span after as many
// frees as blocks were live.
TEST_F(HeapTest, AHotSpanLeavesWithItsLastBlock) {
  for (unsigned c = 0; c < near::kSmallClasses; c++) {
    for (const uint32_t count : {1u, 2u, 7u, uint32_t{kSizeClasses[c].capacity} - 1}) {
      HeapRoom fresh;
      std::vector<char*> blocks;
      for (uint32_t i = 0; i < count; i++) blocks.push_back(fresh.take(c));
      Span& span = fresh.span_of(blocks[0]);
      ASSERT_TRUE(fresh.heap().is_hot(span));
      for (uint32_t i = 0; i + 1 < count; i++) fresh.free(blocks[i]);
      EXPECT_EQ(span.kind, SpanKind::blocks) << "one block is live";
      fresh.free(blocks[count - 1]);
      EXPECT_EQ(span.kind, SpanKind::none) << count << " blocks of class " << c;
      fresh.expect_whole();
      count_cases();
      const near::LockGuard guard(fresh.heap().lock);
      fresh.heap().drop_cache();
      fresh.heap().look_at_all_hot();
    }
  }
}

TEST_F(HeapTest, AHotSpanWithABlockOnItsWayStays) {
  char* first = room_->take(kSmall);
  char* second = room_->take(kSmall);
  Span& span = room_->span_of(first);
  room_->free_remotely(first);
  room_->free(second);
  EXPECT_EQ(span.kind, SpanKind::blocks);
  EXPECT_TRUE(heap().is_hot(span));
  room_->expect_whole();
  count_cases();
}

TEST_F(HeapTest, LooksAtAHotSpanBecomeRareAndComeAgainWhenAsked) {
  for (int i = 0; i < 10'000; i++) room_->free(room_->take(kSmall));
  Span& span = room_->span_of(room_->take(kSmall));
  EXPECT_GT(span.frees.remaining(), 1'000u) << "a loop of malloc and free is left alone";
  while (!room_->live().empty()) room_->free(room_->live().begin()->first);
  EXPECT_TRUE(heap().is_hot(span));
  heap().ask_to_look();
  fill_spans(kSmall + 1, 2);  // by slow paths
  EXPECT_FALSE(heap().is_hot(span));
  room_->expect_whole();
  count_cases(2);
}

TEST_F(HeapTest, EmptySpansStayInASmallCacheAndAreTakenAgain) {
  constexpr size_t kSpans = 20;
  auto spans = fill_spans(kSmall, kSpans);
  for (const auto& blocks : spans) {
    for (char* block : blocks) room_->free(block);
  }
  EXPECT_LE(in_spans(), 6 * near::kSliceSize) << "five in the cache, and the hot one";
  EXPECT_GE(in_spans(), 5 * near::kSliceSize);
  const uint64_t commits = fake_os::calls(OsCall::map);
  const size_t before = in_spans();
  fill_spans(kSmall, 3);
  fill_spans(kSmall + 1, 1);  // and a span of another class
  EXPECT_EQ(in_spans(), before);
  EXPECT_EQ(fake_os::calls(OsCall::map), commits);
  room_->expect_whole();
  const near::LockGuard guard(heap().lock);
  heap().drop_cache();
  count_cases(3);
}

// A thread may have used a size once, and sleep from now on.
TEST_F(HeapTest, AMediumSpanThatWasAllFreeOnceLeaves) {
  for (unsigned c = near::kSmallClasses; c < kClasses; c++) {
    room_->free(room_->take(c));
    room_->expect_whole();
    count_cases();
  }
  EXPECT_EQ(room_->spans().size(), 0u);
  for (int i = 0; i < 10; i++) room_->free(room_->take(kLargest));
  EXPECT_EQ(room_->spans().size(), 1u);
  room_->flush();
  heap().ask_to_look();
  for (int i = 0; i < 4; i++) room_->free(room_->take(kLargest));
  EXPECT_EQ(room_->spans().size(), 0u) << "what was earned before the look counts";
}

TEST_F(HeapTest, SomeIdleMediumSpansStayHotAndTheOthersLeave) {
  for (unsigned c = near::kSmallClasses; c < kClasses; c++) {
    for (int i = 0; i < 5; i++) room_->free(room_->take(c));
    room_->expect_whole();
    if (HasFatalFailure()) return;
    count_cases();
  }
  size_t idle = 0;
  for (const Span* span : room_->spans()) {
    EXPECT_TRUE(heap().is_hot(*span));
    EXPECT_TRUE(span->idle);
    idle++;
  }
  EXPECT_GE(idle, 1u);
  EXPECT_LE(idle, 24u);
  EXPECT_LE(in_spans(), 32 * near::kSliceSize);
  // A loop of one size makes and breaks no span.
  const uint64_t before = near::nodes[0].totals().in_spans;
  for (int i = 0; i < 1'000; i++) room_->free(room_->take(kLargest));
  EXPECT_EQ(near::nodes[0].totals().in_spans, before);
}

TEST_F(HeapTest, AnIdleSpanThatIsUsedAgainIsCountedRightly) {
  for (const unsigned c : {kMedium, kLargest, near::kSmallClasses}) {
    auto spans = fill_spans(c, 1);
    for (char* block : spans[0]) room_->free(block);
    for (int i = 0; i < 4; i++) room_->free(room_->take(c));
    room_->expect_whole();
    spans = fill_spans(c, 2);  // past its end: it turns cold
    room_->expect_whole();
    for (char* block : spans[0]) room_->free_remotely(block);
    for (char* block : spans[1]) room_->free(block);
    room_->expect_whole();
    room_->take(c);  // a slow path, which drains the inbox
    room_->expect_whole();
    count_cases();
  }
}

TEST_F(HeapTest, RemoteFreesComeBackByTheInbox) {
  for (const unsigned c : {0u, kSmall, kMedium, kLargest}) {
    auto spans = fill_spans(c, 3);
    for (const auto& blocks : spans) {
      for (char* block : blocks) room_->free_remotely(block);
    }
    EXPECT_FALSE(heap().inbox_empty());
    room_->expect_whole();
    const size_t before = in_spans();
    room_->take(c);
    EXPECT_TRUE(heap().inbox_empty());
    EXPECT_LE(in_spans(), before);
    room_->expect_whole();
    count_cases();
  }
}

TEST_F(HeapTest, FlushGivesAllBackThatHoldsNoLiveBlock) {
  std::vector<char*> kept;
  for (unsigned c = 0; c < kClasses; c++) {
    auto spans = fill_spans(c, 2);
    kept.push_back(spans[1][0]);
    for (char* block : spans[0]) room_->free(block);
    for (char* block : spans[1]) {
      if (block != kept.back()) room_->free(block);
    }
  }
  room_->flush();
  EXPECT_EQ(room_->spans().size(), kept.size());
  for (const Span* span : room_->spans()) {
    EXPECT_FALSE(heap().is_hot(*span));
    count_cases();
  }
  room_->expect_whole();
  for (char* block : kept) room_->free(block);
  EXPECT_TRUE(room_->spans().empty());
}

// The owner never calls again; other threads free all its blocks.
TEST_F(HeapTest, SpansOfASleeperAreClaimedWhenTheirLastBlockComesBack) {
  auto spans = fill_spans(kSmall, 6);
  for (size_t s = 0; s < 5; s++) {
    for (size_t i = 0; i < spans[s].size(); i++) {
      if (s == 4 && i == 0) continue;  // one block of the last stays live
      if (i % 3 == 0) {
        room_->free(spans[s][i]);
      } else {
        room_->free_remotely(spans[s][i]);
      }
    }
  }
  const size_t before = in_spans();
  {
    const near::LockGuard guard(heap().lock);
    EXPECT_EQ(heap().claim_for_sleeper(), 4u);
    EXPECT_EQ(heap().claim_for_sleeper(), 0u);
    heap().drop_cache();
  }
  EXPECT_EQ(before - in_spans(), 4 * near::kSliceSize);
  EXPECT_FALSE(heap().inbox_empty()) << "the span with a live block waits on";
  room_->expect_whole();
  room_->free_remotely(spans[4][0]);
  {
    const near::LockGuard guard(heap().lock);
    EXPECT_EQ(heap().claim_for_sleeper(), 1u);
  }
  EXPECT_TRUE(heap().inbox_empty());
  room_->expect_whole();
  count_cases(5);
}

TEST_F(HeapTest, AHotSpanIsNotClaimed) {
  auto spans = fill_spans(kMedium, 1);
  for (char* block : spans[0]) room_->free_remotely(block);
  {
    const near::LockGuard guard(heap().lock);
    EXPECT_EQ(heap().claim_for_sleeper(), 0u);
  }
  room_->expect_whole();
  count_cases();
}

TEST_F(HeapTest, ARefusalLeavesTheHeapWhole) {
  fake_os::fail(OsCall::any, 1, true);
  size_t taken = 0;
  while (char* block = room_->take(kLargest)) {
    ASSERT_NE(block, nullptr);
    taken++;
  }
  room_->expect_whole();
  for (unsigned c = 0; c < kClasses; c++) room_->take(c);
  room_->expect_whole();
  fake_os::fail_none();
  EXPECT_NE(room_->take(kLargest), nullptr);
  room_->expect_whole();
  count_cases(taken + 1);
}

// A heap that has shrunk gives back the free pages inside its sparse spans.
TEST_F(HeapTest, FreePagesOfSparseSpansLeaveWhenTheHeapHasShrunk) {
  if (near::os::page_size() == near::kSliceSize) GTEST_SKIP() << "a page is a span";
  auto spans = fill_spans(kSmall, 400);  // the class may pay for looks of other tests first
  const uint64_t before = fake_os::calls(OsCall::purge);
  for (const auto& blocks : spans) {
    for (size_t i = 0; i < blocks.size(); i++) {
      if (i % 512 != 0) room_->free(blocks[i]);
    }
  }
  EXPECT_GT(fake_os::calls(OsCall::purge), before);
  room_->expect_whole();
  auto is_marked = [](const Span* span) { return span->uncarved != 0; };
  const auto owned = room_->spans();
  EXPECT_GT(std::count_if(owned.begin(), owned.end(), is_marked), 30);
  for (int i = 0; i < 20'000; i++) room_->take(kSmall);
  room_->expect_whole();
  count_cases();
}

// A look for free pages walks a list. Where the first looks found no page, few follow.
TEST_F(HeapTest, ItStopsLookingForFreePagesWhereThereAreNone) {
  auto spans = fill_spans(kSmall, 100);
  const uint32_t in_page = near::kPageSize / near::kSizeClasses[kSmall].size;
  for (const auto& blocks : spans) {
    for (size_t i = 0; i < blocks.size(); i++) {
      if (i % in_page != 0) room_->free(blocks[i]);
    }
  }
  const auto owned = room_->spans();
  EXPECT_GT(owned.size(), 90u);
  const auto was_looked_at = [](const Span* span) { return span->looked_at != 0; };
  EXPECT_LT(std::count_if(owned.begin(), owned.end(), was_looked_at), 20);
  room_->expect_whole();
  count_cases();
}

TEST_F(HeapTest, CheckFindsDamage) {
  auto spans = fill_spans(kSmall, 2);
  Span& span = room_->span_of(spans[0][0]);
  for (uint32_t i = 0; i < span.shape().reuse_at + 1u; i++) room_->free(spans[0][i]);
  const auto damaged = [&](auto damage, auto repair) {
    damage();
    const size_t wrong = heap().check_span(span);
    repair();
    EXPECT_EQ(heap().check_span(span), 0u);
    count_cases();
    return wrong > 0;
  };
  near::Block* good = span.local.front();
  const auto lead_to = [&](const near::Block* block) { span.local.set(block->address()); };
  EXPECT_TRUE(damaged([&] { lead_to(good->next()); }, [&] { lead_to(good); }));
  EXPECT_TRUE(damaged([&] { span.reusable = false; }, [&] { span.reusable = true; }));
  EXPECT_TRUE(damaged([&] { span.list = &heap().bins[kSmall]; }, [&] { span.list = &span.local; }));
  const uint32_t owner = heap().id();
  for (const auto& [other_owner, other_node, other_class] :
       {std::array{owner + 1, 0u, kSmall}, {owner, 1u, kSmall}, {owner, 0u, kSmall + 1}}) {
    EXPECT_TRUE(damaged([&] { span.remote.open(other_owner, other_node, other_class); },
                        [&] { span.remote.open(owner, 0, kSmall); }));
  }
  const uintptr_t link = good->link;
  for (const uintptr_t written : {uintptr_t{0}, link ^ near::kLinkReach, ~link}) {
    EXPECT_TRUE(damaged([&] { good->link = written; }, [&] { good->link = link; }));
  }
  EXPECT_TRUE(damaged([&] { good->link_to(good); }, [&] { good->link = link; }));
  auto* odd = reinterpret_cast<near::Block*>(reinterpret_cast<char*>(good) + 16);
  const uintptr_t inside = odd->link;
  EXPECT_TRUE(damaged(
      [&] {
        odd->link_to(good->next());
        lead_to(odd);
      },
      [&] {
        odd->link = inside;
        lead_to(good);
      }));
}

}  // namespace
}  // namespace near_test

// The ring of rare events: what is recorded is read back, a burst is one event
// for each kind and node, the oldest go.
#include "node/events.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "recorded_events.h"
#include "sizes/size_class.h"
#include "support/cases.h"

namespace near_test {
namespace {

using near::Event;
using near::event_ring;
using near::EventKind;
using near::kEvents;
using near::kSliceSize;
using near::recent_event;
using near::record_event;

TEST(Events, AreReadBackAsTheyWereRecorded) {
  forget_events();
  EXPECT_EQ(recent_event(0).kind, EventKind::none);
  record_event(EventKind::spill, 63, 17, 0);
  record_event(EventKind::growth, 5, 5, 32 * kSliceSize);
  record_event(EventKind::purge, 5, 5, size_t{1} << 40);
  const Event last = recent_event(0);
  EXPECT_EQ(last.kind, EventKind::purge);
  EXPECT_EQ(last.bytes, near::kMostEventBytes) << "the most that a word holds";
  const Event middle = recent_event(1);
  EXPECT_EQ(middle.kind, EventKind::growth);
  EXPECT_EQ(middle.node, 5u);
  EXPECT_EQ(middle.bytes, 32 * kSliceSize);
  EXPECT_LE(last.tenths - middle.tenths, 50u);
  const Event first = recent_event(2);
  EXPECT_EQ(first.kind, EventKind::spill);
  EXPECT_EQ(first.node, 63u);
  EXPECT_EQ(first.other, 17u);
  EXPECT_EQ(recent_event(3).kind, EventKind::none);
  count_cases(3);
}

TEST(Events, ABurstIsOneEvent) {
  forget_events();
  for (int i = 0; i < 3; i++) record_event(EventKind::purge, 1, 1, 2 * kSliceSize);
  EXPECT_EQ(recent_event(0).bytes, 6 * kSliceSize);
  EXPECT_EQ(recent_event(1).kind, EventKind::none);
  count_cases();
}

TEST(Events, AreCountedByKindAndNodeAlsoWhenTheyAreForgotten) {
  forget_events();
  // A burst is one event; another node's is another.
  for (int i = 0; i < 3; i++) record_event(EventKind::purge, 1, 1, 2 * kSliceSize);
  record_event(EventKind::purge, 2, 2, 2 * kSliceSize);
  EXPECT_EQ(near::event_count(EventKind::purge, 1), 1u);
  EXPECT_EQ(near::event_count(EventKind::purge, 2), 1u);
  EXPECT_EQ(near::event_count(EventKind::purge, 3), 0u);
  EXPECT_EQ(near::event_count(EventKind::growth, 1), 0u);
  // A pair of nodes comes again when its event is no longer one of the last kOpen.
  for (unsigned other = 0; other < 300; other++) record_event(EventKind::spill, 63, other % 64, 0);
  EXPECT_EQ(near::event_count(EventKind::spill, 63), 300u);
  EXPECT_EQ(near::event_count(EventKind::error, 0), 0u);
  count_cases(7);
}

TEST(Events, ABurstOfSeveralKindsFillsASlotForEach) {
  forget_events();
  record_event(EventKind::bind_refused, 3, 3, kSliceSize);
  for (unsigned i = 0; i < 1000; i++) {
    for (unsigned node = 0; node < 2; node++) {
      record_event(EventKind::growth, node, node, kSliceSize);
      record_event(EventKind::purge, node, node, 2 * kSliceSize);
      record_event(EventKind::spill, node, 1 - node, 0);
    }
  }
  // Two rounds of slots if the burst took more than a second on a busy machine.
  const uint32_t filled = event_ring.next.load(near::kRelaxed);
  ASSERT_LE(filled, 1 + 2 * 6u);
  size_t grown = 0;
  size_t purged = 0;
  for (unsigned back = 0; back < filled - 1; back++) {
    const Event event = recent_event(back);
    if (event.kind == EventKind::growth && event.node == 1) grown += event.bytes;
    if (event.kind == EventKind::purge && event.node == 1) purged += event.bytes;
  }
  EXPECT_EQ(grown, 1000 * kSliceSize);
  EXPECT_EQ(purged, 2000 * kSliceSize);
  EXPECT_EQ(recent_event(filled - 1).kind, EventKind::bind_refused) << "it was driven out";
  count_cases(6);
}

TEST(Events, AnEventIsOpenForASecondAndAsLongAsItIsAmongTheLast) {
  forget_events();
  record_event(EventKind::growth, 0, 0, kSliceSize);
  // As if it had begun two seconds ago, or two seconds from now.
  const uint64_t begun = event_ring.words[0].load(near::kRelaxed);
  for (const uint64_t began : {begun - (uint64_t{20} << 16), begun + (uint64_t{20} << 16)}) {
    event_ring.words[0].store(began, near::kRelaxed);
    event_ring.next.store(1, near::kRelaxed);
    record_event(EventKind::growth, 0, 0, kSliceSize);
    EXPECT_EQ(recent_event(0).bytes, kSliceSize);
    EXPECT_EQ(recent_event(1).bytes, kSliceSize);
  }
  forget_events();
  for (unsigned node = 0; node <= near::kOpen; node++) record_event(EventKind::growth, node, 0, 1);
  record_event(EventKind::growth, 0, 0, 1);
  EXPECT_EQ(event_ring.next.load(near::kRelaxed), near::kOpen + 2) << "its slot is too old";
  record_event(EventKind::growth, 2, 0, 1);
  EXPECT_EQ(event_ring.next.load(near::kRelaxed), near::kOpen + 2);
  count_cases(4);
}

TEST(Events, TheOldestAreForgotten) {
  forget_events();
  for (unsigned i = 0; i < kEvents + 10; i++) {
    record_event(EventKind::growth, i % 64, 0, (i + 1) * kSliceSize);
  }
  for (unsigned back = 0; back < kEvents; back++) {
    EXPECT_EQ(recent_event(back).bytes, (kEvents + 10 - back) * kSliceSize);
  }
  EXPECT_EQ(recent_event(kEvents).kind, EventKind::none);
  count_cases(kEvents);
}

TEST(Events, AreWholeWhicheverThreadsWrite) {
  forget_events();
  const auto begin = std::chrono::steady_clock::now();
  std::thread threads[4];
  for (unsigned t = 0; t < 4; t++) {
    threads[t] = std::thread([t] {
      // The amounts of a thread's events say which they are, unless events were added up.
      for (unsigned i = 0; i < 20000; i++) {
        record_event(EventKind::growth, t * 2 + i % 2, t, (t + 1) * 100 * kSliceSize);
      }
    });
  }
  for (unsigned i = 0; i < 20000; i++) {
    const Event event = recent_event(i % kEvents);
    if (event.kind == EventKind::none) continue;
    ASSERT_EQ(event.kind, EventKind::growth);
    ASSERT_EQ(event.node / 2, event.other);
    const size_t slices = event.bytes / kSliceSize;
    ASSERT_TRUE(slices == 65535 || slices % ((event.other + 1) * 100) == 0) << slices;
  }
  for (std::thread& thread : threads) thread.join();
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - begin).count();
  // Eight kinds each second, and a few more where two threads began at once.
  EXPECT_LE(event_ring.next.load(near::kRelaxed), 16 * (seconds + 1));
  forget_events();
  count_cases();
}

}  // namespace
}  // namespace near_test

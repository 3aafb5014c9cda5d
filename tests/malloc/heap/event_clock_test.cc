// How long a span has to wait until a heap that has shrunk looks for free pages in it.
#include "heap/event_clock.h"

#include <gtest/gtest.h>

#include "support/cases.h"

namespace near_test {
namespace {

using near::EventClock;

void count_events(EventClock& clock, unsigned events) {
  for (unsigned i = 0; i < events; i++) clock.count_event();
}

// A heap that allocates: a refill every few events.
void count_events_and_refills(EventClock& clock, unsigned events) {
  for (unsigned i = 0; i < events; i++) {
    clock.count_event();
    if (i % 8 == 0) clock.count_refill();
  }
}

TEST(EventClock, AHeapThatOnlyFreesWaitsForEventsAlone) {
  EventClock clock;
  clock.count_refill();
  count_events(clock, 5'000);
  EXPECT_EQ(clock.events_of_while(1'000), EventClock::kWhile);
  EXPECT_EQ(clock.events_of_while(1'000), EventClock::kWhile);
  count_cases(2);
}

TEST(EventClock, AHeapThatAllocatesWaitsForTimeToo) {
  EventClock clock;
  uint64_t now_ms = 1'000;
  for (int round = 0; round < 6; round++, now_ms += EventClock::kWhileMs) {
    count_events_and_refills(clock, 3'000);
    const EventClock::Time age = clock.events_of_while(now_ms);
    if (round < 2) continue;
    EXPECT_EQ(age, 3'000);  // what was filed since the mark before the last is too young
    count_cases();
  }
}

TEST(EventClock, AgeGrowsUntilTimeHasPassed) {
  EventClock clock;
  count_events_and_refills(clock, 1'000);
  clock.events_of_while(1'000);
  count_events_and_refills(clock, 1'000);
  clock.events_of_while(1'000 + EventClock::kWhileMs);
  for (unsigned more = 1'000; more <= 10'000; more += 1'000) {
    count_events_and_refills(clock, 1'000);
    EXPECT_EQ(clock.events_of_while(1'000 + EventClock::kWhileMs), 1'000 + more);
    count_cases();
  }
}

TEST(EventClock, FewEventsAreNotAWhile) {
  EventClock clock;
  uint64_t now_ms = 1'000;
  for (int round = 0; round < 4; round++, now_ms += 10 * EventClock::kWhileMs) {
    count_events_and_refills(clock, 10);
    EXPECT_EQ(clock.events_of_while(now_ms), EventClock::kWhile);
    count_cases();
  }
}

TEST(EventClock, EventsWrap) {
  EXPECT_EQ(EventClock::since(3, 65'530), 9);
  EventClock clock;
  count_events(clock, 65'536);
  EXPECT_EQ(clock.now(), 0);
  count_cases(2);
}

}  // namespace
}  // namespace near_test

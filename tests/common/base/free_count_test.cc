// The countdown of a span against two plain numbers.
#include "base/free_count.h"

#include <gtest/gtest.h>

#include <thread>

#include "support/cases.h"
#include "support/pattern.h"

namespace near_test {
namespace {

using near::FreeCount;

TEST(FreeCount, TicksUntilItsTarget) {
  for (uint32_t freed = 0; freed < 300; freed += 7) {
    for (uint32_t target = freed + 1; target < freed + 300; target += 11) {
      FreeCount count{};
      count.set(freed, target);
      for (uint32_t i = freed; i < target; i++) {
        ASSERT_EQ(count.freed(), i);
        ASSERT_EQ(count.remaining(), target - i);
        ASSERT_EQ(count.tick(), i + 1 == target);
      }
      ASSERT_EQ(count.freed(), target);
      ASSERT_EQ(count.target(), target);
      count_cases();
    }
  }
}

TEST(FreeCount, ManyAtOnceCountLikeOneByOneAndStopAtTheEvent) {
  for (uint32_t freed = 0; freed < 40; freed++) {
    for (uint32_t left = 1; left < 40; left++) {
      for (uint32_t frees = 1; frees < 80; frees++) {
        FreeCount count{};
        count.set(freed, freed + left);
        ASSERT_EQ(count.tick(frees), frees >= left);
        ASSERT_EQ(count.freed(), freed + frees);
        ASSERT_EQ(count.remaining(), frees >= left ? 0 : left - frees);
        count_cases();
      }
    }
  }
}

TEST(FreeCount, ManyAtOnceReachAnAwaitedEventOnce) {
  for (const uint32_t few : {1u, 2u, 300u, FreeCount::kMaxAwaited}) {
    for (const uint32_t frees : {1u, 3u, 64u, 4096u}) {
      FreeCount count{};
      count.await(few);
      uint32_t ticks = 1;
      while (!count.tick(frees)) ticks++;
      ASSERT_EQ(ticks, (few + frees - 1) / frees);
      ASSERT_EQ(count.remaining(), 0u);
      ASSERT_EQ(count.freed(), ticks * frees) << "those beyond the event as well";
      count_cases();
    }
  }
}

TEST(FreeCount, UntickUndoesATick) {
  Random random(seed());
  FreeCount count{};
  count.set(10, 4096);
  uint32_t freed = 10;
  for (int i = 0; i < 10'000; i++) {
    if (freed < 4096 && random.below(2) == 0) {
      ASSERT_EQ(count.tick(), ++freed == 4096);
    } else if (freed > 0) {
      count.untick();
      freed--;
    }
    ASSERT_EQ(count.freed(), freed);
    count_cases();
  }
}

TEST(FreeCount, AwaitTakesAsManyFreesAsItSays) {
  FreeCount count{};
  for (const uint32_t few : {1u, 2u, 300u}) {
    count.await(few);
    for (uint32_t i = 1; i < few; i++) {
      ASSERT_FALSE(count.tick());
      ASSERT_EQ(count.freed(), i);
    }
    ASSERT_TRUE(count.tick());
  }
  count.await(FreeCount::kMaxAwaited);
  for (uint32_t i = 1; i < FreeCount::kMaxAwaited; i++) ASSERT_FALSE(count.tick());
  ASSERT_TRUE(count.tick());
  count_cases();
}

// The purge thread relies on this: a thread that reads that n blocks are free sees the n writes.
TEST(FreeCount, AReaderSeesTheWritesOfTheFreesItCounts) {
  constexpr uint32_t kFrees = 30'000;
  static int written[kFrees];
  FreeCount count{};
  count.set(0, kFrees);
  std::thread owner([&] {
    for (uint32_t i = 0; i < kFrees; i++) {
      written[i] = 1;
      if (i % 4 == 0) count.tick();
      if (i % 4 == 3) count.tick(3);
    }
  });
  uint32_t seen = 0;
  while (seen < kFrees) {
    const uint32_t freed = count.freed();
    ASSERT_GE(freed, seen);
    ASSERT_LE(freed, kFrees);
    for (; seen < freed; seen++) ASSERT_EQ(written[seen], 1);
    count_cases();
  }
  owner.join();
}

}  // namespace
}  // namespace near_test

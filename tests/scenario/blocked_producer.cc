// A producer allocates and then waits for ever; other threads free all blocks: a sleeping owner
// must not hold memory.
// Invariant: resident memory falls below a tenth of what was allocated within five seconds.
#include "scenario/scenario.h"
#include "support/parallel.h"

namespace near_test {
namespace {

// Allocates `total` bytes in blocks of up to `largest`, and blocks. Consumers free them in an order
// of their own.
void run_blocked_producer(size_t total, size_t largest, size_t consumers) {
  const size_t mean = largest / 2 + 8;
  Mapped<void*> blocks(total / mean + 1);
  std::barrier produced(2);
  std::barrier finish(2);
  const size_t before = resident_bytes();
  std::thread producer([&] {
    Random random(seed());
    for (size_t i = 0; i < blocks.size(); ++i) {
      const size_t size = 16 + random.below(largest);
      blocks[i] = StandardNames::malloc(size);
      touch(blocks[i], size);
    }
    produced.arrive_and_wait();
    finish.arrive_and_wait();
  });
  produced.arrive_and_wait();
  const size_t peak = resident_bytes();
  report("allocated", above(peak, before));
  EXPECT_GT(above(peak, before), total / 2);
  run_threads(consumers, [&](size_t me) {
    for (size_t i = me; i < blocks.size(); i += consumers) StandardNames::free(blocks[i]);
  });
  const size_t own = blocks.size() * sizeof(void*);
  wait_for_resident(before + own + total / 20, 5);
  const size_t after = wait_for_resident(before + own + total / 10 - 1, 25);  // a busy machine
  report("after the consumers freed it", above(after, before + own));
  EXPECT_LT(above(after, before + own), total / 10);
  EXPECT_EQ(violations(), 0u);
  finish.arrive_and_wait();
  producer.join();
  count_cases();
}

TEST(BlockedProducer, TwoGigabytesOfMixedBlocks) { run_blocked_producer(2 * kGiB, 4096, 2); }

TEST(BlockedProducer, SmallBlocks) { run_blocked_producer(128 * kMiB, 128, 2); }

TEST(BlockedProducer, MediumBlocks) { run_blocked_producer(512 * kMiB, 32 << 10, 3); }

TEST(BlockedProducer, LargeBlocks) { run_blocked_producer(512 * kMiB, 4 * kMiB, 2); }

// Two hundred producers that each hold little, all asleep.
TEST(BlockedProducer, ManySleepingProducers) {
  constexpr size_t kProducers = 200;
  constexpr size_t kEach = 40'000;
  Mapped<void*> blocks(kProducers * kEach);
  std::barrier produced(kProducers + 1);
  std::barrier finish(kProducers + 1);
  const size_t before = resident_bytes();
  Threads producers(kProducers, [&](size_t me) {
    Random random(me);
    for (size_t i = 0; i < kEach; ++i) {
      const size_t size = random.size_up_to(9);
      blocks[me * kEach + i] = StandardNames::malloc(size);
      touch(blocks[me * kEach + i], size);
    }
    produced.arrive_and_wait();
    finish.arrive_and_wait();
  });
  produced.arrive_and_wait();
  const size_t peak = resident_bytes();
  for (size_t i = 0; i < blocks.size(); ++i) StandardNames::free(blocks[i]);
  const size_t own = blocks.size() * sizeof(void*);
  // What 200 threads may keep in hot spans: 1 MiB each.
  wait_for_resident(before + own + kProducers * kMiB / 2, 5);
  const size_t after = wait_for_resident(before + own + kProducers * kMiB - 1, 25);
  report("allocated", above(peak, before + own));
  report("after", above(after, before + own));
  EXPECT_LT(above(after, before + own), kProducers * kMiB);
  finish.arrive_and_wait();
  producers.join();
  count_cases(kProducers);
}

}  // namespace
}  // namespace near_test

// Unused memory goes back to the system, whether a process is busy or idle, or its threads come and
// go.
// Invariant: the bounds are those of the design: 1 MiB a thread, a tenth of what was freed, 64 MiB
// in a process of one thread that sleeps, nothing after malloc_trim.
#include <pthread.h>

#include <memory>

#include "scenario/scenario.h"
#include "support/parallel.h"

namespace near_test {
namespace {

// Allocates and frees `total` bytes in blocks of random sizes up to `largest`; all of them live at
// once.
void fill_and_free(size_t total, size_t largest, uint64_t with_seed) {
  Random random(with_seed);
  Mapped<void*> blocks(2 * total / largest + 1);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t size = 16 + random.below(largest);
    blocks[i] = StandardNames::malloc(size);
    touch(blocks[i], size);
  }
  for (size_t i = 0; i < blocks.size(); ++i) StandardNames::free(blocks[i]);
}

// A thread takes eight blocks of every size class up to 32 KiB, writes and frees them.
void touch_every_class() {
  constexpr size_t kCopies = 8;
  Mapped<void*> blocks(400 * kCopies);
  size_t taken = 0;
  for (size_t size = 1; size <= 32 << 10 && taken < blocks.size();) {
    size_t usable = 0;
    for (size_t copy = 0; copy < kCopies; ++copy) {
      void* block = StandardNames::malloc(size);
      usable = StandardNames::malloc_usable_size(block);
      touch(block, usable);
      blocks[taken++] = block;
    }
    size = usable + 1 + size / 32;
  }
  for (size_t i = 0; i < taken; ++i) StandardNames::free(blocks[i]);
}

TEST(Idle, TwoHundredThreadsKeepAtMostAMebibyteEach) {
  constexpr size_t kThreads = 200;
  std::barrier gate(kThreads + 1);
  Threads threads(kThreads, [&gate](size_t) {
    char stack[64 << 10];
    touch(stack, sizeof stack);
    gate.arrive_and_wait();
    gate.arrive_and_wait();
    touch_every_class();
    gate.arrive_and_wait();
    gate.arrive_and_wait();
  });
  gate.arrive_and_wait();
  const size_t before = resident_bytes();
  gate.arrive_and_wait();
  gate.arrive_and_wait();
  wait_for_resident(before + kThreads * kMiB / 4, 3);
  const size_t after = wait_for_resident(before + kThreads * kMiB, 25);  // a busy machine
  report("retained by 200 threads", above(after, before));
  EXPECT_LE(above(after, before), kThreads * kMiB);
  EXPECT_EQ(violations(), 0u);
  gate.arrive_and_wait();
  threads.join();
  wait_for_resident(before, 3);
  const size_t ended = wait_for_resident(before + 64 * kMiB, 25);
  report("after they ended", above(ended, before));
  EXPECT_LE(above(ended, before), 64 * kMiB);
  count_cases(kThreads);
}

TEST(Idle, AProcessOfThreadsGivesMemoryBack) {
  constexpr size_t kTotal = 512 * kMiB;
  constexpr size_t kThreads = 4;
  for (const size_t largest : {size_t{500}, size_t{8000}, size_t{100'000}, 2 * kMiB}) {
    std::barrier gate(kThreads + 1);
    const size_t before = resident_bytes();
    Threads threads(kThreads, [&](size_t me) {
      fill_and_free(kTotal / kThreads, largest, seed() + me);
      gate.arrive_and_wait();
      gate.arrive_and_wait();
    });
    gate.arrive_and_wait();
    wait_for_resident(before + kTotal / 40, 3);
    const size_t after = wait_for_resident(before + kTotal / 10 - 1, 25);
    report("kept of 512 MiB", above(after, before));
    EXPECT_LT(above(after, before), kTotal / 10) << "blocks up to " << largest;
    gate.arrive_and_wait();
    threads.join();
    count_cases();
  }
}

TEST(Idle, AProcessOfOneThreadKeepsAtMostTheBoundAndTrimTakesAll) {
  constexpr size_t kTotal = 512 * kMiB;
  for (const size_t largest : {size_t{500}, size_t{8000}, size_t{100'000}, 2 * kMiB}) {
    const size_t before = resident_bytes();
    fill_and_free(kTotal, largest, seed());
    // After a whole decay time: a process that needs its memory again sooner may keep it.
    const size_t after = wait_for_resident(0, 1);
    report("kept of 512 MiB", above(after, before));
    EXPECT_LE(above(after, before), 80 * kMiB) << "blocks up to " << largest;
    StandardNames::malloc_trim(0);
    const size_t trimmed = resident_bytes();
    report("kept after malloc_trim", above(trimmed, before));
    EXPECT_LE(above(trimmed, before), 12 * kMiB) << "blocks up to " << largest;
    count_cases();
  }
}

// Threads that end leave nothing behind that the next ones do not use.
TEST(Idle, AHundredThousandThreadsDoNotGrow) {
  const size_t all = scaled(100'000);
  constexpr size_t kBatch = 20;
  size_t settled = 0;
  for (size_t done = 0; done < all; done += kBatch) {
    pthread_t threads[kBatch];
    for (pthread_t& thread : threads) {
      const auto body = [](void*) -> void* {
        Random random(7);
        void* blocks[30];
        for (void*& block : blocks) block = StandardNames::malloc(random.size_up_to(13));
        for (void* block : blocks) StandardNames::free(block);
        return nullptr;
      };
      ASSERT_EQ(pthread_create(&thread, nullptr, body, nullptr), 0);
    }
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
    if (settled == 0 && done >= all / 10) settled = resident_bytes();
    count_cases(kBatch);
  }
  const size_t grown = above(resident_bytes(), settled);
  report("grown", grown);
  EXPECT_LE(grown, 4 * kMiB);
}

}  // namespace
}  // namespace near_test

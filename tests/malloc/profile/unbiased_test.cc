// The profile's sums are unbiased: of 100 runs with different random intervals, about 95 have the
// true number of bytes within their 95 % interval; for five programs with different sizes,
// lifetimes and calls.
#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <thread>

#include "base/bits.h"
#include "profiling.h"
#include "support/cases.h"

namespace near_test {
namespace {

constexpr size_t kMean = 8192;
constexpr unsigned kSeeds = 100;

// What a program did.
struct Truth {
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  uint64_t live = 0;

  void* take(size_t size) {
    count(size);
    return near_malloc(size);
  }
  void count(size_t size) {
    bytes += size;
    blocks++;
    live += size;
  }
  void give(void* block, size_t size) {
    near_free(block);
    live -= size;
  }
};

// Blocks that live on after the program, until they are measured.
struct Kept {
  void* blocks[4096];
  unsigned count = 0;

  void add(void* block) { blocks[count++] = block; }
  ~Kept() {
    for (unsigned i = 0; i < count; i++) near_free(blocks[i]);
  }
};

// The same block again and again: it is never taken from a slow path when nothing counts.
void recycle(Truth& truth, Kept&) {
  for (unsigned i = 0; i < 30000; i++) truth.give(truth.take(96), 96);
}

// Sizes from 1 byte to 20 KiB with a working set, of which an eighth stays.
void churn(Truth& truth, Kept& kept) {
  constexpr unsigned kSlots = 64;
  void* slots[kSlots] = {};
  size_t sizes[kSlots] = {};
  uint64_t random = 12345;
  for (unsigned i = 0; i < 3000; i++) {
    random = near::random_bits(1, random);
    const unsigned slot = random % kSlots;
    if (slots[slot] != nullptr && i % 8 == 0) {
      kept.add(slots[slot]);
    } else if (slots[slot] != nullptr) {
      truth.give(slots[slot], sizes[slot]);
    }
    sizes[slot] = size_t{1} << (random >> 8) % 14;
    sizes[slot] += (random >> 16) % sizes[slot];
    slots[slot] = truth.take(sizes[slot]);
  }
  for (void* block : slots) {
    if (block != nullptr) kept.add(block);
  }
}

// Large blocks beside few small ones, and growth of large blocks by realloc, in place or not.
void grow(Truth& truth, Kept& kept) {
  for (unsigned i = 0; i < 40; i++) {
    size_t size = 33000;
    void* block = truth.take(size);
    for (unsigned step = 0; step < 4; step++) {
      void* const before = block;
      block = near_realloc(block, size + 30000);
      truth.live -= size;
      size += 30000;
      if (block == before) {  // the same block, longer
        truth.bytes += 30000;
        truth.live += size;
      } else {
        truth.count(size);
      }
    }
    for (unsigned small = 0; small < 300; small++) kept.add(truth.take(40));
    truth.give(block, size);
    if (kept.count > 3600) return;
  }
}

// calloc, aligned blocks (which count with the size of their class), blocks of a node; large ones
// now and then.
void call_others(Truth& truth, Kept& kept) {
  const int node = near_node_of(kept.blocks);
  for (unsigned i = 0; i < 1000; i++) {
    kept.add(near_calloc(3, 100));
    truth.count(300);
    void* aligned = near_aligned_alloc(256, 500);
    truth.count(512);
    truth.give(aligned, 512);
    kept.add(near_malloc_on_node(700, node < 0 ? 0 : node, 0));
    truth.count(700);
    void* moved = truth.take(100);
    moved = near_realloc(moved, 2000);
    truth.count(2000);
    truth.live -= 100;
    moved = near_realloc(moved, 2100);  // it would get room, which nobody asked for
    truth.count(2100);
    truth.live -= 2000;
    truth.give(moved, 2100);
    if (i % 10 != 0) continue;
    truth.count(40'000);
    truth.give(near_calloc(4, 10'000), 40'000);
    truth.count(50'000);
    truth.give(near_aligned_alloc(1 << 17, 50'000), 50'000);
  }
}

// Another thread allocates, and this one frees half of it.
void hand_over(Truth& truth, Kept& kept) {
  static void* blocks[4000];
  std::thread([&] {
    for (unsigned i = 0; i < 4000; i++) blocks[i] = truth.take(64 + i % 512);
  }).join();
  for (unsigned i = 0; i < 4000; i += 2) {
    truth.give(blocks[i], 64 + i % 512);
    kept.add(blocks[i + 1]);
  }
}

struct Program {
  const char* name;
  void (*run)(Truth&, Kept&);
};

class Unbiased : public testing::TestWithParam<Program> {};

TEST_P(Unbiased, TheTruthIsInTheInterval) {
  unsigned allocated_inside = 0;
  unsigned live_inside = 0;
  double deviations = 0;
  double live_deviations = 0;
  double block_ratios = 0;
  for (unsigned seed = 1; seed <= kSeeds; seed++) {
    Truth truth;
    Kept kept;
    ProfileTotals found;
    {
      const Profiling profiling(kMean, seed);
      ASSERT_TRUE(profiling.started());
      GetParam().run(truth, kept);
      near::profile::stop();
      found = profile_totals();
    }
    // The thread of `hand_over` takes a few bytes itself.
    const double off =
        ProfileTotals::deviations(found.allocated.bytes, truth.bytes, found.variance);
    const double live_off =
        ProfileTotals::deviations(found.live.bytes, truth.live, found.live_variance);
    allocated_inside += std::abs(off) < 1.96;
    live_inside += truth.live == 0 ? found.live.bytes == 0 : std::abs(live_off) < 1.96;
    deviations += off;
    live_deviations += live_off;
    block_ratios += ProfileTotals::blocks(found.allocated) / static_cast<double>(truth.blocks);
    EXPECT_EQ(near::profile::summary().dropped_blocks, 0u);
    EXPECT_EQ(found.live.bytes + found.freed.bytes, found.allocated.bytes);
    count_cases();
  }
  std::printf("%s: %u of %u allocated, %u live; mean deviations %.2f, %.2f\n", GetParam().name,
              allocated_inside, kSeeds, live_inside, deviations / kSeeds, live_deviations / kSeeds);
  // 95 is expected; 87 and less has a chance below 0.002.
  EXPECT_GE(allocated_inside, 88u);
  EXPECT_GE(live_inside, 88u);
  // The mean of 100 standard deviations has the deviation 0.1.
  EXPECT_LT(std::abs(deviations / kSeeds), 0.4);
  EXPECT_LT(std::abs(live_deviations / kSeeds), 0.4);
  EXPECT_NEAR(block_ratios / kSeeds, 1, 0.1);
}

INSTANTIATE_TEST_SUITE_P(Programs, Unbiased,
                         testing::Values(Program{"recycle", recycle}, Program{"churn", churn},
                                         Program{"grow", grow}, Program{"call_others", call_others},
                                         Program{"hand_over", hand_over}),
                         [](const auto& chosen) { return chosen.param.name; });

}  // namespace
}  // namespace near_test

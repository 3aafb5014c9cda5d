// Page faults and mappings stay within budget while blocks of all sizes come and go.
// Invariant: at most 10,000 lines in /proc/self/maps at any time; a steady live set causes few
// faults.
#include "scenario/scenario.h"

namespace near_test {
namespace {

constexpr size_t kMostMappings = 10'000;

struct Held {
  void* start;
  size_t size;
};

void replace(Held& held, size_t size) {
  StandardNames::free(held.start);
  held = {StandardNames::malloc(size), size};
  touch(held.start, size);
}

// A heap of 1 GiB of which nine in ten blocks are freed at random, with large blocks in between,
// while it decays.
TEST(Budgets, MappingsOfAFragmentedHeap) {
  Random random(seed());
  Mapped<Held> held(1'000'000);
  size_t most = 0;
  const auto look = [&] {
    most = std::max(most, mapping_count());
    count_cases();
  };
  for (size_t i = 0; i < held.size(); ++i) {
    replace(held[i], i % 5'000 == 0 ? 100'000 + random.below(kMiB) : random.size_up_to(12));
    if (i % 100'000 == 0) look();
  }
  for (size_t i = 0; i < held.size(); ++i) {
    if (random.below(10) == 0) continue;
    StandardNames::free(held[i].start);
    held[i] = {nullptr, 0};
    if (i % 50'000 == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      look();
    }
  }
  StandardNames::malloc_trim(0);
  look();
  // Large blocks between what is left, freed in turns.
  for (size_t i = 0; i < 20'000; ++i) {
    replace(held[random.below(2'000) * 500],
            4096 + random.below(i % 100 == 0 ? 16 * kMiB : 256 << 10));
    if (i % 1'000 == 0) look();
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  look();
  for (size_t i = 0; i < held.size(); ++i) StandardNames::free(held[i].start);
  look();
  std::printf("most mappings: %zu\n", most);
  EXPECT_LE(most, kMostMappings);
  EXPECT_EQ(violations(), 0u);
}

// Faults beyond those of the first touch of what lives: at most one in twenty operations.
void expect_few_faults(size_t slots, size_t operations, unsigned bits) {
  Random random(seed());
  Mapped<Held> held(slots);
  for (size_t i = 0; i < 2 * slots; ++i)
    replace(held[random.below(slots)], random.size_up_to(bits));
  const size_t before = minor_faults();
  for (size_t i = 0; i < operations; ++i) {
    replace(held[random.below(slots)], random.size_up_to(bits));
  }
  const size_t faults = minor_faults() - before;
  std::printf("sizes up to 2^%u: %zu faults in %zu operations\n", bits, faults, operations);
  EXPECT_LE(faults, operations / 20);
  for (size_t i = 0; i < slots; ++i) StandardNames::free(held[i].start);
  count_cases(operations);
}

TEST(Budgets, FaultsOfASteadyLiveSetOfSmallBlocks) { expect_few_faults(100'000, 2'000'000, 10); }

TEST(Budgets, FaultsOfASteadyLiveSetOfMediumBlocks) { expect_few_faults(5'000, 500'000, 15); }

// Blocks of 1 MiB in turn: the allocator may fault each page a few times, not each time.
TEST(Budgets, FaultsOfLargeBlocksInTurn) {
  constexpr size_t kRounds = 2'000;
  const size_t before = minor_faults();
  for (size_t i = 0; i < kRounds; ++i) {
    const size_t size = kMiB * (1 + i % 8);
    void* block = StandardNames::malloc(size);
    touch(block, size);
    StandardNames::free(block);
    count_cases();
  }
  const size_t faults = minor_faults() - before;
  std::printf("%zu faults in %zu rounds\n", faults, kRounds);
  EXPECT_LE(faults, kRounds * 1'152 / 20);
}

// A mostly unused array of zeroes takes no memory, also in memory written before.
TEST(Budgets, AnArrayOfZeroesInUsedMemoryIsSparse) {
  constexpr size_t kArray = 80 * kMiB;
  const size_t before = resident_bytes();
  for (int round = 0; round < 4; round++) {
    auto* bytes = static_cast<char*>(StandardNames::calloc(1, kArray));
    ASSERT_NE(bytes, nullptr);
    EXPECT_TRUE(is_zero(bytes, 4096));
    bytes[0] = 1;
    EXPECT_LE(above(resident_bytes(), before), kArray / 10);
    StandardNames::free(bytes);
    bytes = static_cast<char*>(StandardNames::malloc(kArray));
    touch(bytes, kArray);
    StandardNames::free(bytes);
    count_cases();
  }
  auto* bytes = static_cast<char*>(StandardNames::calloc(1, kArray));
  EXPECT_TRUE(is_zero(bytes, kArray));
  StandardNames::free(bytes);
}

}  // namespace
}  // namespace near_test

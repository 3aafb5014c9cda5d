// The sampling profiler under malloc, free and realloc: which blocks it follows, that their frees
// are noticed however they come, and that nothing is left of it when it stops.
#include "profile/profiler.h"

#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "front/thread.h"
#include "heap/registry.h"
#include "node/memory.h"
#include "platform/os.h"
#include "profiling.h"
#include "stack_chain.h"
#include "support/cases.h"
#include "support/forked.h"
#include "support/pattern.h"
#include "support/said_of.h"

namespace near_test {
namespace {

constexpr size_t kSizes[] = {16, 100, 1024, 1025, 5000, 32768, 32769, 300'000};

class ProfilerTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_FALSE(near::profile::is_running());
    EXPECT_EQ(near_check(), 0u);
  }
};

TEST_F(ProfilerTest, SampledBlocksAreLikeOthers) {
  for (const size_t size : kSizes) {
    const size_t usable = [&] {
      void* ordinary = near_malloc(size);
      const size_t bytes = near_malloc_usable_size(ordinary);
      near_free(ordinary);
      return bytes;
    }();
    const Profiling profiling(kEveryBlock);
    char* block = sampled(size);
    EXPECT_EQ(near_malloc_usable_size(block), usable) << size;
    EXPECT_EQ(near_owns(block), 1);
    EXPECT_GE(near_node_of(block), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 16, 0u);
    fill(block, size, size);
    char* other = sampled(size);
    fill(other, size, 1);
    EXPECT_TRUE(holds(block, size, size)) << size;
    near_free(other);
    near_free(block);
    count_cases();
  }
}

TEST_F(ProfilerTest, SlicesAreUsedAgain) {
  const Profiling profiling(kEveryBlock);
  constexpr unsigned kInSlice = 2;  // blocks of the largest class
  char* blocks[2 * kInSlice];
  for (char*& block : blocks) block = sampled(32'768);
  for (unsigned round = 0; round < 3; round++) {
    for (char*& block : blocks) {
      char* const freed = block;
      near_free(block);
      block = sampled(32'768);
      EXPECT_EQ(block, freed);
      count_cases();
    }
  }
  const uint64_t before = near::nodes[0].totals().in_spans;
  const uint64_t told = near::profile::summary().slice_bytes;
  for (char* block : blocks) near_free(block);
  EXPECT_EQ(before - near::nodes[0].totals().in_spans, 2 * near::kSliceSize);
  EXPECT_EQ(told - near::profile::summary().slice_bytes, 2 * near::kSliceSize);
}

// A slice for each class would cost more than most programs' samples.
TEST_F(ProfilerTest, BlocksOfAllClassesTakeFewSlices) {
  const Profiling profiling(kEveryBlock);
  const uint64_t before = near::profile::summary().slice_bytes;
  std::vector<char*> blocks;
  for (unsigned size_class = 0; size_class < near::kClasses; size_class++) {
    const size_t size = near::class_size(size_class);
    blocks.push_back(sampled(size));
    fill(blocks.back(), size, size);
    const unsigned used = near::current_heap->class_of_small.in_use(size_class);
    EXPECT_EQ(near_malloc_usable_size(blocks.back()), near::class_size(used));
  }
  EXPECT_EQ(near::span_of(blocks[4]), near::span_of(blocks[15])) << "80 and 256 bytes";
  EXPECT_NE(near::span_of(blocks[3]), near::span_of(blocks[4])) << "64 and 80 bytes";
  // Each size of cells has one slice; 8 classes with cells of 8 KiB fill it, those of 16 and 32 KiB
  // two and four.
  EXPECT_EQ(near::profile::summary().slice_bytes - before, 11 * near::kSliceSize);
  for (unsigned size_class = 0; size_class < near::kClasses; size_class++) {
    EXPECT_TRUE(
        holds(blocks[size_class], near::class_size(size_class), near::class_size(size_class)));
    near_free(blocks[size_class]);
    count_cases();
  }
  EXPECT_EQ(near::profile::summary().slice_bytes, before);
}

// Each thread begins without a heap, and counts before it has one.
TEST_F(ProfilerTest, TheFirstBlockOfAThreadIsSampled) {
  const Profiling profiling(kEveryBlock);
  for (const size_t size : {size_t{1000}, size_t{5000}, size_t{300'000}}) {
    for (int i = 0; i < 5; i++) {
      std::thread([size] {
        void* block = near_malloc(size);
        EXPECT_TRUE(is_sampled(block)) << size;
        near_free(block);
      }).join();
      count_cases();
    }
  }
}

TEST_F(ProfilerTest, AlignedBlocksAreAligned) {
  const Profiling profiling(kEveryBlock);
  for (size_t alignment = 16; alignment <= 1 << 18; alignment *= 2) {
    for (const size_t size : kSizes) {
      void* block = near_aligned_alloc(alignment, size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u);
      near_free(block);
      count_cases();
    }
  }
}

TEST_F(ProfilerTest, FreesAreNoticedHoweverTheyCome) {
  const Profiling profiling(kEveryBlock);
  const uint32_t before = near::profile::summary().live_samples;
  for (const size_t size : kSizes) {
    near_free(sampled(size));
    near_free_sized(sampled(size), size);
    void* batch[] = {sampled(size), nullptr, sampled(size), sampled(64)};
    near_free_batch(batch, 4);
    near_free_batch(batch, 0);
    void* one[] = {sampled(size)};
    near_free_batch(one, 1);
    EXPECT_EQ(near_realloc(sampled(size), 0), nullptr);
    near_free(near_realloc(sampled(size), size * 3));
    std::thread([block = sampled(size)] { near_free(block); }).join();
    count_cases(8);
  }
  EXPECT_EQ(near::profile::summary().live_samples, before);
  const ProfileTotals found = profile_totals();
  EXPECT_EQ(found.live.bytes, 0u);
  EXPECT_GT(found.remote.bytes, 300'000u) << "by the other threads";
}

TEST_F(ProfilerTest, ReallocKeepsContents) {
  const Profiling profiling(kEveryBlock);
  for (const size_t size : kSizes) {
    for (const size_t wanted : kSizes) {
      char* block = sampled(size);
      fill_range(block, 0, size, wanted);
      block = static_cast<char*>(near_realloc(block, wanted));
      ASSERT_NE(block, nullptr);
      EXPECT_TRUE(range_holds(block, 0, std::min(size, wanted), wanted)) << size << " " << wanted;
      near_free(block);
      count_cases();
    }
  }
}

TEST_F(ProfilerTest, ABlockThatGrowsInPlaceIsNoNewSample) {
  const Profiling profiling(kEveryBlock);
  char* block = sampled(40'000);
  const near::profile::Summary before = near::profile::summary();
  uint64_t moves = 0;
  size_t size = 40'000;
  while (size < 400'000) {
    auto* grown = static_cast<char*>(near_realloc(block, size += 4'000));
    if (grown != block) moves++;
    block = grown;
  }
  const near::profile::Summary after = near::profile::summary();
  EXPECT_LT(moves, 10u);
  EXPECT_EQ(after.samples, before.samples + moves);
  EXPECT_EQ(after.live_samples, before.live_samples);
  EXPECT_EQ(after.live.bytes, before.live.bytes + size - 40'000);
  near_free(block);
  EXPECT_EQ(near::profile::summary().live.bytes, before.live.bytes - 40'000);
  count_cases();
}

TEST_F(ProfilerTest, ABlockOfAnEarlierRunCountsByWhatItGrows) {
  constexpr size_t kSize = size_t{4} << 20;
  constexpr size_t kGrowth = 4096;
  std::vector<char*> blocks;
  {
    const Profiling earlier(kEveryBlock);
    for (int i = 0; i < 10; i++) blocks.push_back(sampled(kSize - kGrowth));
  }
  const Profiling profiling(kSize);
  for (char* block : blocks) {
    EXPECT_TRUE(is_sampled(block));
    EXPECT_EQ(near_realloc(block, kSize), block);
    count_cases();
  }
  EXPECT_EQ(near::profile::summary().samples, 0u) << "a hundredth of the mean has grown";
  for (char* block : blocks) near_free(block);
}

TEST_F(ProfilerTest, WrongFreesAreReported) {
  const Profiling profiling(kEveryBlock);
  for (const size_t size : {size_t{100}, size_t{50'000}}) {
    char* keep = sampled(size);  // its slice stays
    char* block = sampled(size);
    const std::string inside = said_of([&] { near_free(block + 16); });
    EXPECT_NE(inside.find("it is not the start of a block"), std::string::npos) << inside;
    const char* const what = size == 100 ? "16 bytes into a cell of 256" : "into a large block";
    EXPECT_NE(inside.find(what), std::string::npos) << inside;
    near_free(block);
    const std::string twice = said_of([&] { near_free(block); });
    EXPECT_NE(twice.find("it was freed before"), std::string::npos) << twice;
    near_free(keep);
  }
}

TEST_F(ProfilerTest, FreedBlocksAreNotReallocated) {
  const Profiling profiling(kEveryBlock);
  char* keep = sampled(100);  // its slice stays
  char* block = sampled(100);
  near_free(block);
  EXPECT_EQ(near_malloc_usable_size(block), 0u);
  for (const size_t size : {90, 1000}) {
    const std::string said = said_of([&] { EXPECT_EQ(near_realloc(block, size), nullptr); });
    EXPECT_NE(said.find("realloc of a block that was freed before"), std::string::npos) << said;
  }
  near_free(keep);
}

TEST_F(ProfilerTest, BlocksOfNamedNodesAndHeapsAreSampled) {
  const Profiling profiling(kEveryBlock);
  const int node = near::topology.kernel_id[near::topology.count - 1];
  near_heap* heap = near_heap_create_on_node(node, 0);
  for (const size_t size : kSizes) {
    unsigned followed = 0;
    for (unsigned i = 0; i < 4; i++) {
      void* of_node = near_malloc_on_node(size, node, NEAR_STRICT);
      void* of_heap = near_heap_malloc(heap, size);
      followed += is_sampled(of_node) + is_sampled(of_heap);
      EXPECT_EQ(near_node_of(of_node), node);
      EXPECT_EQ(near_node_of(of_heap), node);
      near_free(of_node);
      near_free(of_heap);
    }
    EXPECT_GE(followed, 6u) << size;
    count_cases();
  }
  near_heap_destroy(heap);
}

TEST_F(ProfilerTest, BlocksThatAreRecycledAreCounted) {
  ProfileTotals found;
  near_free(near_malloc(64));
  const uint64_t before = near::nodes[0].totals().in_spans;
  {
    const Profiling profiling(1000);
    for (unsigned i = 0; i < 100'000; i++) near_free(near_malloc(64));
    found = profile_totals();
    for (unsigned i = 0; i < 300'000; i++) near_free(near_malloc(64));
  }
  // Other spans may come; if the blocks that were due were lost, there would be 24 more.
  EXPECT_LE(near::nodes[0].totals().in_spans, before + 12 * near::kSliceSize)
      << "blocks that were due are free again";
  EXPECT_NEAR(static_cast<double>(found.samples), 100'000 * 0.0620, 350);
  count_cases();
}

TEST_F(ProfilerTest, NothingIsLeftWhenItStops) {
  for (unsigned i = 0; i < 3; i++) {
    const Profiling profiling(100);
    EXPECT_EQ(near::current_heap->class_of_small[100], near::kEmptyBin);
    near_free(near_malloc(100));
    EXPECT_NE(near::current_heap->class_of_small[100], near::kEmptyBin);
  }
  for (uint32_t id = 0; id < near::heap_count(); id++) {
    const near::ClassTable& table = near::heap_by_id(id)->class_of_small;
    for (size_t size = 0; size <= near::kSmallMax; size++) {
      ASSERT_EQ(table[size], table.in_use(near::kClassOfSmall[size]));
    }
    count_cases();
  }
  const uint64_t draws = near::profile::summary().samples;
  for (unsigned i = 0; i < 1000; i++) near_free(near_malloc(100));
  for (unsigned i = 0; i < 10; i++) near_free(near_malloc(100'000));
  EXPECT_EQ(near::profile::summary().samples, draws);
  void* block = near_malloc(100);
  near_free(near_malloc(100));  // the block may still be marked
  const uint64_t visits = near::current_heap->visits();
  near_free(block);
  for (unsigned i = 0; i < 100; i++) near_free(near_malloc(100));
  EXPECT_EQ(near::current_heap->visits(), visits) << "slow paths";
}

TEST_F(ProfilerTest, ThreadsThatStartLaterAreCounted) {
  const Profiling profiling(kEveryBlock);
  // More threads at once than there are heaps: some get a new one.
  const uint32_t heaps = near::heap_count();
  std::barrier all(heaps + 1);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i <= heaps; i++) {
    threads.emplace_back([&all] {
      near_free(near_malloc(100));
      EXPECT_NE(near::current_heap->marks.run(), 0);
      near_free(sampled(100));
      all.arrive_and_wait();
      count_cases();
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_GT(near::heap_count(), heaps);
}

TEST_F(ProfilerTest, BlocksOutliveTheirRun) {
  char* first;
  {
    const Profiling profiling(kEveryBlock);
    first = sampled(200);
  }
  EXPECT_EQ(near::profile::summary().live_samples, 1u);
  {
    const Profiling profiling(kEveryBlock);
    EXPECT_EQ(profile_totals().live.bytes, 0u);
    char* second = sampled(200);
    near_free(first);
    near_free(second);
    EXPECT_EQ(profile_totals().live.bytes, 0u);
    EXPECT_EQ(profile_totals().remote.bytes, 0u);
  }
  EXPECT_EQ(near::profile::summary().live_samples, 0u);
  count_cases();
}

TEST_F(ProfilerTest, WhatHasNoRoomIsCounted) {
  std::vector<void*> blocks;
  blocks.reserve(near::profile::Table::kSamples + 1000);
  {
    const Profiling profiling(kEveryBlock);
    while (blocks.size() < blocks.capacity()) blocks.push_back(near_malloc(40));
    const near::profile::Summary found = near::profile::summary();
    EXPECT_EQ(found.live_samples, near::profile::Table::kSamples);
    EXPECT_GE(found.dropped_blocks, 900u);
    EXPECT_LE(found.own_bytes, 1u << 20);
    EXPECT_NEAR(ProfileTotals::blocks(profile_totals().allocated),
                static_cast<double>(blocks.size()), 100);
    for (void* block : blocks) near_free(block);
    EXPECT_EQ(near::profile::summary().live_samples, 0u);
  }
  count_cases();
}

size_t resident_bytes(const void* start, size_t bytes) {
  const size_t page = near::os::page_size();
  std::vector<unsigned char> told(bytes / page);
  EXPECT_EQ(mincore(const_cast<void*>(start), bytes, told.data()), 0);
  return page * static_cast<size_t>(std::count_if(told.begin(), told.end(),
                                                  [](unsigned char each) { return each & 1; }));
}

// With all its tables full, and the file that is kept.
TEST_F(ProfilerTest, ItsOwnMemoryIsAtMostAMebibyte) {
  const int file = static_cast<int>(syscall(SYS_memfd_create, "kept", 0));
  std::vector<void*> blocks;
  blocks.reserve(near::profile::Table::kSamples + 100);
  const Profiling profiling(kEveryBlock);
  ASSERT_TRUE(near::profile::keep_in(file, true));
  while (blocks.size() < blocks.capacity()) {
    blocks.push_back(chain_call<0>(static_cast<unsigned>(blocks.size()) % 1024, 10, 40));
  }
  const near::profile::Summary found = near::profile::summary();
  EXPECT_EQ(found.live_samples, near::profile::Table::kSamples);
  EXPECT_EQ(found.sites, near::profile::Table::kSites);
  struct stat kept;
  ASSERT_EQ(fstat(file, &kept), 0);
  const size_t of_tables =
      resident_bytes(near::profile::own_memory(), near::profile::Table::kBytes);
  EXPECT_GT(of_tables, 400u << 10) << "else they are not full";
  EXPECT_LE(static_cast<uint64_t>(kept.st_blocks) * 512 + of_tables, found.own_bytes);
  EXPECT_LE(found.own_bytes, 1u << 20);
  EXPECT_TRUE(near::profile::stop_keeping());
  close(file);
  for (void* block : blocks) near_free(block);
  count_cases(blocks.size());
}

TEST_F(ProfilerTest, ThePeakIsKept) {
  const Profiling profiling(kEveryBlock);
  std::vector<char*> blocks(50);
  for (char*& block : blocks) block = sampled(10'000);
  const uint64_t peak = profile_totals().live.bytes;
  for (char* block : blocks) near_free(block);
  near_free(sampled(20'000));
  const ProfileTotals found = profile_totals();
  EXPECT_EQ(found.live.bytes, 0u);
  EXPECT_GE(found.peak.bytes, 500'000u);
  EXPECT_EQ(found.peak.bytes, peak);
  EXPECT_EQ(near::profile::summary().peak.bytes, peak);
  const auto waste = static_cast<double>(found.waste);
  EXPECT_NEAR(waste / static_cast<double>(found.allocated.bytes), 0.024, 0.01)
      << "10,000 bytes of 10,240";
  count_cases();
}

TEST_F(ProfilerTest, AForkedChildGoesOn) {
  const Profiling profiling(kEveryBlock);
  char* block = sampled(300);
  const int status = run_in_child([&] {
    near_free(block);
    near_free(sampled(300));
    std::thread([] { near_free(sampled(3000)); }).join();
    return near_check() == 0 && near::profile::summary().live_samples == 0 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  near_free(block);
  count_cases();
}

TEST_F(ProfilerTest, StartsAndStopsWhileThreadsRun) {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  std::atomic<void*> passed[16] = {};
  for (unsigned t = 0; t < 3; t++) {
    threads.emplace_back([&, t] {
      uint64_t random = t;
      while (!over) {
        random = near::random_bits(t, random);
        auto* block = static_cast<char*>(near_malloc(kSizes[random % 6]));
        block[0] = 1;
        if (random % 64 == 0) block = static_cast<char*>(near_realloc(block, 40'000));
        near_free(passed[random >> 8 & 15].exchange(block));
      }
    });
  }
  for (size_t i = 0; i < scaled(60); i++) {
    const Profiling profiling(300, i);
    EXPECT_TRUE(profiling.started());
    FILE* nowhere = std::fopen("/dev/null", "w");
    EXPECT_EQ(near_profile_write(nowhere, NEAR_PROFILE_JSON), 0);
    EXPECT_EQ(near_profile_write(nowhere, NEAR_PROFILE_PPROF), 0);
    std::fclose(nowhere);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    count_cases();
  }
  over = true;
  for (std::thread& each : threads) each.join();
  for (auto& block : passed) near_free(block);
  EXPECT_EQ(near::profile::summary().live_samples, 0u);
}

TEST_F(ProfilerTest, TheApiSaysWhatIsWrong) {
  EXPECT_EQ(near_profile_stop(), EALREADY);
  EXPECT_EQ(near_profile_start(1'000'000'001), EINVAL);
  ASSERT_EQ(near_profile_start(0), 0);
  EXPECT_EQ(near::profile::summary().mean, 524288u);
  EXPECT_EQ(near_profile_start(0), EALREADY);
  EXPECT_EQ(near_profile_write(nullptr, NEAR_PROFILE_JSON), EINVAL);
  EXPECT_EQ(near_profile_write(stdout, static_cast<near_profile_format>(5)), EINVAL);
  FILE* full = std::fopen("/dev/full", "w");
  EXPECT_EQ(near_profile_write(full, NEAR_PROFILE_JSON), EIO);
  std::fclose(full);
  EXPECT_EQ(near_profile_stop(), 0);
  count_cases(8);
}

}  // namespace
}  // namespace near_test

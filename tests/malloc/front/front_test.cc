// malloc and free as programs call them: large blocks, alignment, realloc, threads, wrong frees.
#include "front/front.h"

#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "front/large.h"
#include "heap/registry.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/pattern.h"
#include "support/said_of.h"
#include "support/threads.h"

namespace near_test {
namespace {

using near::kMediumMax;
using near::kMiB;
using near::kSliceSize;

class FrontTest : public testing::Test {
 protected:
  void TearDown() override {
    fake_os::fail_none();
    EXPECT_EQ(near_check(), 0u);
  }
};

char* filled(size_t size, uint64_t seed) {
  void* block = near_malloc(size);
  fill(block, size, seed);
  fill_range(static_cast<char*>(block), 0, std::min(size, kWholeUpTo), seed);
  return static_cast<char*>(block);
}

TEST_F(FrontTest, ALargeBlockGrowsAndShrinksWhereItIs) {
  void* room = near_malloc(3 * kMiB);
  char* block = static_cast<char*>(near_realloc(room, kMiB));
  EXPECT_EQ(block, room);
  near_malloc_trim(0);  // a block that grows would move into free memory that is still resident
  fill(block, kMiB, 1);
  fill_range(block, 0, kWholeUpTo, 1);
  const size_t before = near::large_bytes();
  char* grown = static_cast<char*>(near_realloc(block, 3 * kMiB));
  EXPECT_EQ(grown, block) << "nothing is behind it";
  EXPECT_TRUE(holds(grown, kMiB, 1));
  EXPECT_EQ(near::large_bytes(), before + 2 * kMiB);
  EXPECT_EQ(near_malloc_usable_size(grown), 3 * kMiB);
  fill(grown, 3 * kMiB, 2);
  char* shrunk = static_cast<char*>(near_realloc(grown, 100'000));
  EXPECT_EQ(shrunk, block);
  EXPECT_EQ(near_malloc_usable_size(shrunk), 2 * kSliceSize);
  EXPECT_EQ(near::large_bytes(), before - kMiB + 2 * kSliceSize);
  char* next = static_cast<char*>(near_malloc(kSliceSize));
  EXPECT_EQ(next, shrunk + 2 * kSliceSize) << "what was given back is used again";
  fill(next, kSliceSize, 3);
  char* moved = static_cast<char*>(near_realloc(shrunk, kMiB));
  EXPECT_NE(moved, shrunk) << "somebody is behind it";
  EXPECT_TRUE(holds(next, kSliceSize, 3));
  near_free(next);
  near_free(moved);
  count_cases(8);
}

TEST_F(FrontTest, ReallocKeepsTheContentsAcrossEveryBorder) {
  const size_t sizes[] = {1,       16,   17,       128,          1024,    1025,   4096,
                          8192,    8193, 32'768,   32'769,       65'536,  65'537, 131'072,
                          200'000, kMiB, 2 * kMiB, 2 * kMiB + 1, 5 * kMiB};
  for (const size_t from : sizes) {
    for (const size_t to : sizes) {
      char* block = filled(from, from);
      auto* moved = static_cast<char*>(near_realloc(block, to));
      ASSERT_NE(moved, nullptr);
      ASSERT_GE(near_malloc_usable_size(moved), to);
      ASSERT_TRUE(range_holds(moved, 0, std::min({from, to, kWholeUpTo}), from))
          << from << " to " << to;
      std::memset(moved, 1, to);
      near_free(moved);
      count_cases();
    }
  }
}

// Each move gives room for a fifth more, so few moves copy it.
TEST_F(FrontTest, ABlockThatGrowsALittleAtATimeSeldomMoves) {
  for (const size_t step : {size_t{16}, size_t{100}, size_t{300}}) {
    char* block = filled(step, step);
    double moves = 0;
    for (size_t size = 2 * step; size <= near::kMediumMax; size += step) {
      auto* grown = static_cast<char*>(near_realloc(block, size));
      if (grown != block) moves++;
      block = grown;
    }
    EXPECT_TRUE(range_holds(block, 0, step, step));
    EXPECT_LE(moves, 8 + std::log(near::kMediumMax / 128.0) / std::log(1.2))
        << "in steps of " << step;
    near_free(block);
    count_cases();
  }
}

// A class with room may be refused where the class of the size has a free block.
TEST_F(FrontTest, ABlockGrowsWithoutRoomIfThatIsRefused) {
  char* block = filled(2'048, 1);
  near_free(near_malloc(2'304));
  fake_os::set_commit_limit(fake_os::committed_bytes());
  auto* grown = static_cast<char*>(near_realloc(block, 2'100));
  fake_os::set_commit_limit(SIZE_MAX);
  ASSERT_NE(grown, nullptr);
  EXPECT_TRUE(range_holds(grown, 0, 2'048, 1));
  near_free(grown);
  count_cases();
}

TEST_F(FrontTest, AnyAlignmentIsHonoured) {
  for (size_t alignment = 1; alignment <= 64 * kMiB; alignment *= 2) {
    for (const size_t size :
         {size_t{0}, size_t{1}, size_t{100}, size_t{5'000}, size_t{33'000}, kMiB}) {
      std::vector<void*> blocks;
      for (int i = 0; i < 3; i++) {
        void* block = near::allocate_aligned(alignment, size);
        ASSERT_NE(block, nullptr);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u) << size;
        ASSERT_GE(near_malloc_usable_size(block), size);
        if (size > 0) {
          fill(block, size, alignment);
        }
        blocks.push_back(block);
        count_cases();
      }
      for (void* block : blocks) {
        if (size > 0) {
          ASSERT_TRUE(holds(block, size, alignment));
        }
        near_free(block);
      }
    }
  }
  errno = 0;
  EXPECT_EQ(near::allocate_aligned(size_t{1} << 62, 1), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(FrontTest, CallocIsZeroAlsoInMemoryThatWasUsed) {
  for (const size_t size : {size_t{24}, size_t{3'000}, size_t{20'000}, size_t{70'000}, 3 * kMiB}) {
    std::vector<void*> blocks;
    for (int i = 0; i < 10; i++) blocks.push_back(filled(size, 9));
    for (void* block : blocks) near_free(block);
    for (int i = 0; i < 10; i++) {
      blocks[static_cast<size_t>(i)] = near_calloc(size / 8, 8);
      ASSERT_TRUE(is_zero(blocks[static_cast<size_t>(i)], size)) << size;
      count_cases();
    }
    for (void* block : blocks) near_free(block);
  }
}

TEST_F(FrontTest, UsableSizesAreThoseOfTheClasses) {
  near_free(near_malloc(1));
  for (size_t size = 0; size <= kMediumMax; size += size < 2'000 ? 1 : 97) {
    const unsigned used = near::current_heap->class_of_small.in_use(near::class_of(size));
    void* block = near_malloc(size);
    ASSERT_EQ(near_malloc_usable_size(block), near::kSizeClasses[used].size);
    near_free(block);
    count_cases();
  }
  EXPECT_EQ(near_malloc_usable_size(nullptr), 0u);
  int here = 0;
  EXPECT_EQ(near_malloc_usable_size(&here), 0u);
}

TEST_F(FrontTest, FreedBlocksHaveNoUsableBytesWhoeverFreedThem) {
  for (const size_t size : {size_t{10}, size_t{500}, size_t{5'000}, size_t{30'000}}) {
    std::vector<void*> blocks;
    for (int i = 0; i < 10; i++) blocks.push_back(near_malloc(size));
    near_free(blocks[3]);
    std::thread([&] { near_free(blocks[5]); }).join();  // it goes to the remote list
    EXPECT_EQ(near_malloc_usable_size(blocks[3]), 0u) << size;
    EXPECT_EQ(near_malloc_usable_size(blocks[5]), 0u) << size;
    EXPECT_GE(near_malloc_usable_size(blocks[4]), size);
    if (near::kCheckBuild) {
      near_free(blocks[4]);
      EXPECT_EQ(near_malloc_usable_size(blocks[3]), 0u) << size;
    }
    for (size_t i = 0; i < blocks.size(); i++) {
      if (i != 3 && i != 5 && !(near::kCheckBuild && i == 4)) near_free(blocks[i]);
    }
    count_cases(2);
  }
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST_F(FrontTest, ADoubleFreeOfTheLastBlockIsReported) {
  for (const size_t size : {size_t{10}, size_t{500}, size_t{5'000}, size_t{30'000}}) {
    std::vector<void*> blocks;
    for (int i = 0; i < 10; i++) blocks.push_back(near_malloc(size));
    near_free(blocks[3]);
    EXPECT_TRUE(has(said_of([&] { near_free(blocks[3]); }), "double free")) << size;
    // Another thread frees a block for the first time: this free goes to the remote list.
    std::thread([&] { near_free(blocks[5]); }).join();
    EXPECT_TRUE(
        has(said_of([&] { std::thread([&] { near_free(blocks[5]); }).join(); }), "double free"))
        << size;
    for (size_t i = 0; i < blocks.size(); i++) {
      if (i != 3 && i != 5) near_free(blocks[i]);
    }
  }
}

// A heap with many blocks of a medium class keeps some that were freed (heap/spare_blocks.h).
TEST_F(FrontTest, ADoubleFreeOfASpareBlockIsReported) {
  for (const size_t size : {size_t{1'281}, size_t{5'000}, size_t{20'000}}) {
    std::vector<void*> blocks;
    for (int i = 0; i < 1'000; i++) blocks.push_back(near_malloc(size));
    const unsigned used = near::current_heap->class_of_small.in_use(near::class_of(size));
    const auto& spares = near::current_heap->spares_of(used);
    near_free(blocks[500]);
    near_free(blocks[700]);
    ASSERT_EQ(spares.count(), 2u) << size;
    for (const size_t i : {size_t{500}, size_t{700}}) {
      EXPECT_TRUE(has(said_of([&] { near_free(blocks[i]); }), "double free")) << size;
      void* again[] = {blocks[i], near_malloc(10)};
      EXPECT_TRUE(has(said_of([&] { near_free_batch(again, 2); }), "double free")) << size;
      void* moved = nullptr;
      EXPECT_FALSE(said_of([&] { moved = near_realloc(blocks[i], size); }).empty()) << size;
      EXPECT_EQ(moved, nullptr);
      count_cases(3);
    }
    EXPECT_EQ(spares.count(), 2u);
    for (size_t i = 0; i < blocks.size(); i++) {
      if (i != 500 && i != 700) near_free(blocks[i]);
    }
    EXPECT_EQ(near_check(), 0u);
  }
}

TEST_F(FrontTest, AnyDoubleFreeIsReportedByTheCheckBuild) {
  if (!near::kCheckBuild) GTEST_SKIP() << "this is not the check build";
  for (const size_t size : {size_t{10}, size_t{500}, size_t{5'000}, size_t{30'000}}) {
    std::vector<void*> blocks;
    for (int i = 0; i < 40; i++) blocks.push_back(near_malloc(size));
    near_free(blocks[3]);
    near_free(blocks[4]);
    EXPECT_TRUE(has(said_of([&] { near_free(blocks[3]); }), "double free")) << size;
    for (size_t i = 0; i < blocks.size(); i++) {
      if (i != 3 && i != 4) near_free(blocks[i]);
    }
  }
}

TEST_F(FrontTest, PointersThatAreNoBlocksAreReportedWhoeverFreesThem) {
  char* small = filled(100, 1);
  char* medium = filled(20'000, 1);
  const auto* span = near::span_of(small);
  char* waste = span->start + size_t{span->shape().capacity} * span->shape().size;
  ASSERT_LT(waste, span->start + span->bytes()) << "a class without waste behind its last block";
  std::thread([&] {
    near_free(near_malloc(1));  // has a heap of its own
    for (char* wrong : {small + 1, small + 16, waste, medium + 8, medium + 65'536}) {
      EXPECT_TRUE(has(said_of([&] { near_free(wrong); }), "invalid free of")) << (wrong - small);
      count_cases();
    }
    near_free(small);
    EXPECT_TRUE(has(said_of([&] { near_free(small); }), "double free"));
  }).join();
  EXPECT_TRUE(holds(medium, 20'000, 1));
  near_free(medium);
}

TEST_F(FrontTest, PointersThatAreNoBlocksAreReported) {
  char* small = filled(100, 1);
  char* medium = filled(20'000, 1);
  char* large = filled(kMiB, 1);
  char* again = filled(kMiB, 1);
  near_free(again);
  for (char* wrong : {small + 1, small + 16, medium + 8, medium + 65'536, large + 16,
                      large + kSliceSize, again, again + 100}) {
    EXPECT_TRUE(has(said_of([&] { near_free(wrong); }), "invalid free of")) << (wrong - small);
    EXPECT_TRUE(has(said_of([&] {
                      errno = 0;
                      EXPECT_EQ(near_realloc(wrong, 5), nullptr);
                    }),
                    "realloc of what is no live block"));
    EXPECT_EQ(near_malloc_usable_size(wrong), 0u);
  }
  int here = 0;
  EXPECT_TRUE(has(said_of([&] { near_free(&here); }), "not a block of this allocator"));
  auto* unused = reinterpret_cast<char*>(near::reserved_base + near::reserved_bytes - 4096);
  EXPECT_TRUE(has(said_of([&] { near_free(unused); }), "invalid free of"));
  EXPECT_TRUE(holds(small, 100, 1) && holds(medium, 20'000, 1) && holds(large, kMiB, 1));
  near_free(small);
  near_free(medium);
  near_free(large);
}

TEST_F(FrontTest, ThreadsComeAndGo) {
  near_stats before;
  near_get_stats(&before);
  char* left = nullptr;
  for (size_t i = 0; i < scaled(300); i++) {
    std::thread([&] {
      near_free(left);
      left = filled(700, 5);
      for (size_t size = 1; size < 40'000; size = size * 3 / 2 + 1) near_free(filled(size, size));
    }).join();
    EXPECT_TRUE(holds(left, 700, 5));
    count_cases();
  }
  near_free(left);
  near_stats after;
  near_get_stats(&after);
  EXPECT_LE(after.heaps, before.heaps + 1) << "every thread takes the heap of the one before";
  EXPECT_LE(after.committed, before.committed + 16 * kMiB);
}

TEST_F(FrontTest, WhatAThreadLeftIsFreedByOthers) {
  near_malloc_trim(0);
  near_stats before;
  near_get_stats(&before);
  std::vector<char*> left;
  std::thread([&] {
    for (size_t i = 0; i < 20'000; i++) left.push_back(filled(1 + i % 3'000, i));
  }).join();
  for (size_t i = 0; i < left.size(); i++) {
    ASSERT_TRUE(holds(left[i], 1 + i % 3'000, i));
    near_free(left[i]);
    count_cases();
  }
  near_malloc_trim(0);
  near_stats after;
  near_get_stats(&after);
  EXPECT_LE(after.in_spans, before.in_spans + 64 * 1024) << "all of it came back";
  EXPECT_EQ(after.dirty, 0u);
}

TEST_F(FrontTest, FreeingAfterTheHeapIsGoneWorks) {
  if (NEAR_TSAN != 0) GTEST_SKIP() << "the sanitizer's own thread is gone by then";
  // A destructor that runs in the last round of thread-specific destructors, after ours.
  static pthread_key_t key;
  static int rounds = 0;
  static char* late_block = nullptr;
  ASSERT_EQ(pthread_key_create(&key,
                               [](void* block) {
                                 near_free(block);
                                 char* next = filled(50, 8);
                                 if (++rounds < 4) {
                                   pthread_setspecific(key, next);
                                 } else {
                                   late_block = next;
                                 }
                               }),
            0);
  std::thread([] { pthread_setspecific(key, filled(50, 8)); }).join();
  EXPECT_EQ(rounds, 4);
  EXPECT_TRUE(holds(late_block, 50, 8));
  near_free(late_block);
  pthread_key_delete(key);
  count_cases(4);
}

TEST_F(FrontTest, TrimGivesBackAllThatIsFree) {
  std::vector<char*> blocks;
  for (size_t i = 0; i < 20'000; i++) blocks.push_back(filled(1'000, i));
  for (char* block : blocks) near_free(block);
  near_stats stats;
  near_malloc_trim(0);
  near_get_stats(&stats);
  EXPECT_EQ(stats.dirty, 0u);
  EXPECT_EQ(near_malloc_trim(0), 0) << "there is nothing left to give";
  count_cases(2);
}

// Every function that allocates gives back what it can and tries again.
TEST_F(FrontTest, ASingleRefusalIsSurvived) {
  constexpr size_t kHuge = 300 * kMiB;
  const std::function<void*()> ways[] = {[] { return near_malloc(kHuge); },
                                         [] { return near_calloc(1, kHuge); },
                                         [] { return near_realloc(near_malloc(10), kHuge); },
                                         [] { return near_aligned_alloc(kMiB, kHuge); }};
  for (const auto& way : ways) {
    // This uses up what is mapped, so that the next block needs a new mapping.
    std::vector<void*> taken;
    const uint64_t mapped = fake_os::calls(OsCall::map);
    while (fake_os::calls(OsCall::map) == mapped) taken.push_back(near_malloc(2 * kMiB));
    const uint64_t refusals = fake_os::refusals();
    fake_os::fail(OsCall::map, 1, false);
    taken.push_back(way());
    EXPECT_NE(taken.back(), nullptr);
    EXPECT_EQ(fake_os::refusals(), refusals + 1);
    fake_os::fail_none();
    for (void* each : taken) near_free(each);
    near_malloc_trim(0);
    count_cases();
  }
}

TEST_F(FrontTest, ShrinkingIsNeverRefused) {
  for (const size_t from : {size_t{1'000}, size_t{30'000}, size_t{50'000}, 3 * kMiB}) {
    for (const size_t to : {size_t{1}, size_t{600}, size_t{20'000}, size_t{40'000}}) {
      if (to > from) continue;
      char* block = filled(from, 4);
      // This uses up all blocks of the smaller size; no more can be made.
      fake_os::fail(OsCall::any, 1, true);
      std::vector<void*> used;
      while (void* each = near_malloc(kSliceSize)) used.push_back(each);
      while (void* each = near_malloc(to)) used.push_back(each);
      auto* shrunk = static_cast<char*>(near_realloc(block, to));
      ASSERT_NE(shrunk, nullptr) << from << " to " << to;
      EXPECT_TRUE(range_holds(shrunk, 0, std::min(to, kWholeUpTo), 4));
      fake_os::fail_none();
      near_free(shrunk);
      for (void* each : used) near_free(each);
      count_cases();
    }
  }
}

TEST_F(FrontTest, ImpossibleSizesAreRefusedAndCostNothing) {
  const size_t metadata = near::metadata_bytes();
  for (int i = 0; i < 200; i++) {
    for (const size_t size : {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 - 1, size_t{1} << 50}) {
      errno = 0;
      ASSERT_EQ(near_malloc(size), nullptr);
      ASSERT_EQ(errno, ENOMEM);
      errno = 0;
      ASSERT_EQ(near_calloc(size / 2, 3), nullptr);
      ASSERT_EQ(errno, ENOMEM);
      char* block = filled(100, 1);
      errno = 0;
      ASSERT_EQ(near_realloc(block, size), nullptr);
      ASSERT_EQ(errno, ENOMEM);
      ASSERT_TRUE(holds(block, 100, 1));
      near_free(block);
      count_cases();
    }
  }
  fake_os::fail(OsCall::map, 1, true);
  for (int i = 0; i < 1'000; i++) ASSERT_EQ(near_malloc(8 * near::kGiB), nullptr);
  EXPECT_LE(near::metadata_bytes(), metadata + 4'096) << "every refusal costs memory";
}

}  // namespace
}  // namespace near_test

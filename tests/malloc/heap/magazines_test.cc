// Blocks that another thread frees: magazines, the depot, and how they come back to their spans.
// There is no purge thread here; the tests do its rounds.
#include "heap/magazines.h"

#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "front/held.h"
#include "front/thread.h"
#include "heap/give_back.h"
#include "node/memory.h"
#include "platform/fence.h"
#include "platform/options.h"
#include "support/cases.h"
#include "support/forked.h"
#include "support/parted.h"
#include "support/said_of.h"
#include "support/threads.h"

namespace near_test {
namespace {

using near::kClasses;
using near::kMagazineCapacity;
using near::kSizeClasses;

class MagazinesTest : public testing::Test {
 protected:
  void SetUp() override {
    near_free(near_malloc(1));
    ASSERT_TRUE(near::register_membarrier());
    ASSERT_TRUE(near::make_depots());
    near::magazines_in_use.value.store(true);
    other_([] { part_classes(); });
  }
  void TearDown() override {
    free_all(from_bin_);
    near::give_back_magazines(true);
    near::magazines_in_use.value.store(false);
    EXPECT_EQ(near::depots[0].bytes(), 0u);
    EXPECT_FALSE(near::current_heap->magazines() != nullptr &&
                 near::current_heap->magazines()->holds());
    EXPECT_EQ(near_check(), 0u);
  }

  // Blocks that the other thread allocates.
  std::vector<void*> blocks_of_other(size_t number, size_t size) {
    std::vector<void*> blocks;
    blocks.reserve(number);
    other_([&] {
      for (size_t i = 0; i < number; i++) blocks.push_back(near_malloc(size));
    });
    return blocks;
  }
  static void free_all(const std::vector<void*>& blocks) {
    for (void* block : blocks) near_free(block);
  }

  // The bytes that one thread's part of the depot holds at most.
  static size_t depot_bound() {
    return near::topology.cpus[0] * near::kDepotBytes / near::depots[0].part_count();
  }

  // Takes the free blocks of the thread's bin, so that it needs others.
  void empty_bin(size_t bytes) {
    while (!near::current_heap->bins[near::class_of(bytes)].is_empty()) {
      from_bin_.push_back(near_malloc(bytes));
    }
  }

  static size_t held() {
    uint64_t bytes[near::kMaxNodes] = {};
    near::current_heap->magazines()->add_bytes(bytes);
    return bytes[0];
  }

  // The blocks of the spans of `blocks` that lie in remote lists.
  static size_t returned(const std::vector<void*>& blocks) {
    std::set<const near::Span*> spans;
    for (const void* block : blocks) spans.insert(near::enclosing_span(block));
    size_t sum = 0;
    for (const near::Span* span : spans) sum += span->remote.count();
    return sum;
  }

  Worker other_;

 private:
  std::vector<void*> from_bin_;
};

TEST_F(MagazinesTest, BlocksOfEveryClassWaitInMagazinesAndComeBack) {
  for (unsigned c = 0; c < kClasses; c++) {
    const size_t number = kMagazineCapacity[c] + 1;
    const std::vector<void*> blocks = blocks_of_other(number, kSizeClasses[c].size);
    free_all(blocks);
    EXPECT_EQ(returned(blocks), 0u);
    EXPECT_EQ(held(), kSizeClasses[c].size) << "the full one is in the depot";
    EXPECT_EQ(near::depots[0].bytes(), (number - 1) * kSizeClasses[c].size);
    near::give_back_magazines(true);
    EXPECT_EQ(returned(blocks), number) << kSizeClasses[c].size;
    EXPECT_EQ(held(), 0u);
    other_([c] { near_free(near_malloc(kSizeClasses[c].size)); });  // takes them back
    EXPECT_EQ(near_check(), 0u);
    count_cases();
  }
}

TEST_F(MagazinesTest, AThreadAllocatesWhatItFreedLast) {
  const unsigned c = near::class_of(512);
  const size_t half = kMagazineCapacity[c] / 2;
  const std::vector<void*> blocks = blocks_of_other(2 * half, 512);
  free_all(blocks);
  empty_bin(512);
  std::vector<void*> again;
  for (size_t i = 0; i < half; i++) again.push_back(near_malloc(512));
  EXPECT_TRUE(std::equal(again.begin(), again.end(), blocks.rbegin()));
  again.push_back(near_malloc(512));
  EXPECT_EQ(held(), half * 512) << "the lower half waits";
  near_free(again[0]);
  near::Block* taken = near::current_heap->take_put_away(c);
  EXPECT_EQ(taken, again[0]);
  near::record_held(taken);  // as malloc does
  free_all(again);
  count_cases(half);
}

TEST_F(MagazinesTest, AFreeFromInsideTheAllocatorGoesToItsSpan) {
  const std::vector<void*> blocks = blocks_of_other(2, 64);
  near_free(blocks[0]);
  {
    const near::Inside inside;  // as in a signal handler
    near_free(blocks[1]);
  }
  EXPECT_EQ(held(), 64u);
  EXPECT_EQ(returned(blocks), 1u);
  count_cases(2);
}

// Each block counts once, wherever it went, and a double free not at all.
TEST_F(MagazinesTest, FreedBlocksAreCounted) {
  const std::vector<void*> blocks = blocks_of_other(70, 64);
  const auto& freed = near::current_heap->freed_of[0];
  const uint64_t before = freed.load();
  free_all(blocks);
  EXPECT_EQ(freed.load(), before + 70);
  said_of([&] { near_free(blocks[69]); });
  EXPECT_EQ(freed.load(), before + 70);
  near::magazines_in_use.value.store(false);
  const std::vector<void*> more = blocks_of_other(70, 64);
  const uint64_t now = freed.load();
  free_all(more);
  EXPECT_EQ(freed.load(), now + 70);
  count_cases(140);
}

// Otherwise a batch has a chain for each span.
TEST_F(MagazinesTest, ABatchUsesThemIfThreadsDo) {
  std::vector<void*> blocks = blocks_of_other(10, 64);
  near_free_batch(blocks.data(), blocks.size());
  EXPECT_EQ(held(), 640u);
  near::give_back_magazines(true);
  near::magazines_in_use.value.store(false);
  blocks = blocks_of_other(10, 64);
  const size_t before = returned(blocks);
  near_free_batch(blocks.data(), blocks.size());
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(returned(blocks), before + 10);
  count_cases(20);
}

// It needs no other thread's empty ones then; when it is idle, it keeps none.
TEST_F(MagazinesTest, AThreadKeepsOneEmptyMagazine) {
  const unsigned c = near::class_of(200);
  const size_t capacity = kMagazineCapacity[c];
  free_all(blocks_of_other(2 * capacity + 1, 200));  // two full ones are in the depot
  near::Depot& depot = near::depots[0];
  std::vector<near::Magazine*> others;
  while (near::Magazine* empty = depot.part(0).take_empty()) others.push_back(empty);
  std::vector<void*> taken;
  for (size_t i = 0; i < capacity + 1; i++) {
    near::Block* block = near::current_heap->take_put_away(c);
    near::record_held(block);
    taken.push_back(block);
  }
  EXPECT_EQ(depot.part(0).take_empty(), nullptr) << "the one that was used up is the spare";
  const size_t before = near::metadata_bytes();
  free_all(taken);  // fills the magazine it had, and then the spare
  EXPECT_EQ(near::metadata_bytes(), before);
  near::give_back_magazines(true);
  size_t empties = 0;
  while (near::Magazine* empty = depot.part(0).take_empty()) {
    others.push_back(empty);
    empties++;
  }
  EXPECT_GE(empties, 3u);
  for (near::Magazine* each : others) depot.part(0).leave_empty(*each);
  count_cases(2);
}

// Otherwise threads that free one foreign block now and then would share cache lines.
TEST_F(MagazinesTest, AThreadDoesNotAllocateAFewForeignBlocks) {
  const unsigned c = near::class_of(16);
  const std::vector<void*> blocks = blocks_of_other(kMagazineCapacity[c] / 2 - 1, 16);
  free_all(blocks);
  EXPECT_EQ(near::current_heap->take_put_away(c), nullptr);
  count_cases();
}

TEST_F(MagazinesTest, AThreadThatFreesNothingAllocatesFromTheDepot) {
  const unsigned c = near::class_of(100);
  const size_t capacity = kMagazineCapacity[c];
  const std::vector<void*> blocks = blocks_of_other(capacity + 1, 100);
  free_all(blocks);
  Worker third;
  std::vector<void*> taken;
  third([&] {
    near_free(near_malloc(1));
    for (size_t i = 0; i < capacity; i++) {
      near::Block* block = near::current_heap->take_put_away(c);
      near::record_held(block);  // as malloc does
      taken.push_back(block);
    }
    EXPECT_EQ(near::current_heap->take_put_away(c), nullptr) << "the depot is empty";
  });
  const std::set<void*> expected(blocks.begin(), blocks.end());
  for (void* block : taken) EXPECT_EQ(expected.count(block), 1u);
  EXPECT_EQ(std::set<void*>(taken.begin(), taken.end()).size(), capacity);
  EXPECT_EQ(near::depots[0].bytes(), 0u);
  third([&] { free_all(taken); });
  count_cases(capacity);
}

TEST_F(MagazinesTest, ADepotHoldsNoMoreThanItsBound) {
  const size_t bound = depot_bound();  // one thread fills its own part
  for (const size_t size : {size_t{16}, size_t{300}, size_t{32'768}}) {
    const std::vector<void*> blocks = blocks_of_other(2 * bound / size, size);
    free_all(blocks);
    EXPECT_LE(near::depots[0].bytes(), bound);
    EXPECT_GT(near::depots[0].bytes(), bound - 2 * near::kMagazineBytes - 2 * size);
    EXPECT_GT(returned(blocks), blocks.size() / 3);
    near::give_back_magazines(true);
    EXPECT_EQ(returned(blocks), blocks.size());
    other_([size] { near_free(near_malloc(size)); });
    count_cases();
  }
}

// A flow in one direction uses the same magazines again and again.
TEST_F(MagazinesTest, AFlowOfBlocksMakesNoMoreMagazines) {
  constexpr size_t kFlow = 20'000;
  for (int i = 0; i < 2; i++) free_all(blocks_of_other(kFlow, 64));  // both threads have theirs
  const size_t metadata = near::metadata_bytes();
  for (int i = 0; i < 10; i++) free_all(blocks_of_other(kFlow, 64));
  EXPECT_EQ(near::metadata_bytes(), metadata);
  count_cases(10);
}

TEST_F(MagazinesTest, ARoundEmptiesThoseOfIdleThreads) {
  const std::vector<void*> blocks = blocks_of_other(10, 64);
  near::clean_heaps(false);  // notes how far each thread is
  near_free(near_malloc(20'000));
  ASSERT_FALSE(near::current_heap->is_idle());
  free_all(blocks);
  EXPECT_TRUE(near::give_back_magazines(false));
  EXPECT_EQ(returned(blocks), 0u) << "the thread is busy";
  near::clean_heaps(false);
  EXPECT_FALSE(near::give_back_magazines(false));
  EXPECT_EQ(returned(blocks), 10u);
  count_cases(3);
}

TEST_F(MagazinesTest, ABusyThreadGivesBackWhatItNoLongerUses) {
  const std::vector<void*> some = blocks_of_other(10, 64);
  const std::vector<void*> more = blocks_of_other(10, 128);
  free_all(some);
  const auto slow_path = [] {
    near::current_heap->ask_to_look();
    std::vector<void*> own;
    for (int i = 0; i < 200; i++) own.push_back(near_malloc(1'000));
    free_all(own);
  };
  slow_path();
  EXPECT_EQ(returned(some), 0u) << "used since the last request";
  free_all(more);
  slow_path();
  EXPECT_EQ(returned(some), 10u);
  EXPECT_EQ(returned(more), 0u);
  count_cases(3);
}

TEST_F(MagazinesTest, AClosedGateSendsABlockToItsSpan) {
  const std::vector<void*> blocks = blocks_of_other(3, 64);
  near_free(blocks[0]);
  near::Gate& gate = near::current_heap->magazines()->gate();
  gate.close();
  near_free(blocks[1]);
  EXPECT_EQ(returned(blocks), 1u);
  EXPECT_EQ(near::current_heap->take_put_away(near::class_of(64)), nullptr);
  gate.open();
  near_free(blocks[2]);
  EXPECT_EQ(returned(blocks), 1u);
  count_cases(4);
}

TEST_F(MagazinesTest, NothingIsEmptiedWhileItsOwnerIsInside) {
  const std::vector<void*> blocks = blocks_of_other(3, 64);
  free_all(blocks);
  near::Gate& gate = near::current_heap->magazines()->gate();
  ASSERT_TRUE(gate.enter());
  EXPECT_FALSE(gate.enter()) << "as by a signal handler";
  EXPECT_TRUE(near::give_back_magazines(true));
  EXPECT_EQ(returned(blocks), 0u);
  gate.leave();
  EXPECT_FALSE(near::give_back_magazines(true));
  EXPECT_EQ(returned(blocks), 3u);
  count_cases(2);
}

TEST_F(MagazinesTest, TheBlockFreedLastIsADoubleFree) {
  const std::vector<void*> blocks = blocks_of_other(2, 64);
  const std::string said = said_of([&] {
    free_all(blocks);
    near_free(blocks[1]);
  });
  EXPECT_NE(said.find("double free"), std::string::npos) << said;
  EXPECT_EQ(held(), 2 * 64u);
  count_cases();
}

TEST_F(MagazinesTest, AChildOfForkFindsEachBlockOnce) {
  const std::vector<void*> blocks = blocks_of_other(1'000, 64);
  for (size_t i = 0; i < 500; i++) near_free(blocks[i]);
  near::Gate& gate = near::current_heap->magazines()->gate();
  gate.close();  // as a purge thread that does not exist in the child
  const int status = run_in_child([&] {
    for (size_t i = 500; i < blocks.size(); i++) near_free(blocks[i]);
    near::give_back_magazines(true);
    near_malloc_trim(0);
    return near_check() == 0 && near::depots[0].bytes() == 0 ? 0 : 1;
  });
  gate.open();
  EXPECT_EQ(status, 0);
  for (size_t i = 500; i < blocks.size(); i++) near_free(blocks[i]);
  count_cases();
}

// Runs with NEARMALLOC_TOPOLOGY of several nodes. The other thread is on node 1.
class NumaMagazines : public MagazinesTest {
 protected:
  NumaMagazines() { set_cpu(0); }
  void SetUp() override {
    ASSERT_GE(near::topology.count, 2u) << "NEARMALLOC_TOPOLOGY is missing";
    MagazinesTest::SetUp();
    ASSERT_EQ(near::current_heap->node(), 0u);
  }
  std::vector<void*> blocks_of_node_1(size_t number) {
    std::vector<void*> blocks;
    far_([&] {
      for (size_t i = 0; i < number; i++) blocks.push_back(near_malloc(64));
    });
    return blocks;
  }
  Worker far_{1};
};

TEST_F(NumaMagazines, BlocksStayOnTheirNode) {
  const std::vector<void*> blocks = blocks_of_node_1(1'000);
  free_all(blocks);
  EXPECT_EQ(near::depots[0].bytes(), 0u);
  EXPECT_GT(near::depots[1].bytes(), 0u);
  EXPECT_EQ(near::current_heap->take_put_away(near::class_of(64)), nullptr);
  near::give_back_magazines(true);
  EXPECT_EQ(returned(blocks), blocks.size());
  count_cases(blocks.size());
}

TEST_F(NumaMagazines, AFlowBetweenNodesMakesNoMoreMagazines) {
  constexpr size_t kFlow = 5'000;
  for (int i = 0; i < 2; i++) free_all(blocks_of_node_1(kFlow));  // both threads have theirs
  const size_t metadata = near::metadata_bytes();
  for (int i = 0; i < 10; i++) free_all(blocks_of_node_1(kFlow));
  EXPECT_EQ(near::metadata_bytes(), metadata);
  count_cases(10);
}

}  // namespace
}  // namespace near_test

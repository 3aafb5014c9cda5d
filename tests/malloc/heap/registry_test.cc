// All heaps: parking, taking, adoption of single spans, cleaning.
#include "heap/registry.h"

#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>
#include <pthread.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "front/thread.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/forked.h"
#include "support/heap_room.h"

namespace near_test {
namespace {

using near::Heap;
using near::kSizeClasses;

constexpr unsigned kPlainClass = 9;

class RegistryTest : public testing::Test {
 protected:
  void SetUp() override {
    near::start_library();
    near::clean_heaps(true);
  }

  // A room whose heap has `spans` full spans of the class, and the blocks.
  std::vector<char*> fill(HeapRoom& room, size_t spans) {
    std::vector<char*> blocks;
    for (size_t i = 0; i < spans * kSizeClasses[kPlainClass].capacity; i++) {
      blocks.push_back(room.take(kPlainClass));
    }
    return blocks;
  }
};

TEST_F(RegistryTest, AParkedHeapIsTakenWholeByTheNext) {
  Heap* heap = near::take_heap(0);
  ASSERT_NE(heap, nullptr);
  EXPECT_EQ(near::heap_by_id(heap->id()), heap);
  EXPECT_FALSE(heap->registration.parked);
  const auto thread = reinterpret_cast<uintptr_t>(pthread_self());
  EXPECT_EQ(heap->registration.thread, thread);
  near::park_heap(heap);
  EXPECT_TRUE(heap->registration.parked);
  EXPECT_EQ(heap->registration.thread, 0u);
  const auto before = near::heap_totals();
  EXPECT_EQ(near::take_heap(0), heap) << "the one parked last";
  EXPECT_FALSE(heap->registration.parked);
  EXPECT_EQ(heap->registration.thread, thread);
  EXPECT_EQ(near::heap_totals().parked, before.parked - 1);
  EXPECT_EQ(near::heap_totals().heaps, before.heaps);
  near::park_heap(heap);
  count_cases(8);
}

TEST_F(RegistryTest, HeapsInUseAreDistinctAndNumbered) {
  std::set<Heap*> taken;
  for (int i = 0; i < 50; i++) {
    Heap* heap = near::take_heap(0);
    ASSERT_NE(heap, nullptr);
    EXPECT_TRUE(taken.insert(heap).second);
    EXPECT_EQ(near::heap_by_id(heap->id()), heap);
    EXPECT_EQ(heap->node(), 0u);
    count_cases();
  }
  const auto before = near::heap_totals();
  for (Heap* heap : taken) near::park_heap(heap);
  EXPECT_EQ(near::heap_totals().parked, before.parked + taken.size());
}

TEST_F(RegistryTest, TheLateHeapIsOneAndNeverParked) {
  Heap* late = near::fallback_heap(0);
  ASSERT_NE(late, nullptr);
  EXPECT_EQ(near::fallback_heap(0), late);
  EXPECT_FALSE(late->registration.parked);
  EXPECT_EQ(late->registration.thread, 0u) << "it is every thread's";
  Heap* other = near::take_heap(0);
  EXPECT_NE(other, late);
  near::park_heap(other);
  const near::LockGuard guard(late->lock);
  EXPECT_NE(late->take_locked(kPlainClass), nullptr);
  count_cases(4);
}

TEST_F(RegistryTest, ASpanOfAParkedHeapIsAdoptedWithItsLiveBlocks) {
  auto ended = std::make_unique<HeapRoom>();
  const std::vector<char*> blocks = fill(*ended, 3);
  near::Span& span = HeapRoom::span_of(blocks[0]);
  for (size_t i = 1; i < kSizeClasses[kPlainClass].capacity; i++) ended->free(blocks[i]);
  HeapRoom adopter;  // made before the other is parked, or it would get all of it
  Heap* old_owner = span.owner.load();
  ended->park();
  const uint64_t before = near::heap_totals().adoptions;
  char* block = adopter.take(kPlainClass);
  EXPECT_EQ(&HeapRoom::span_of(block), &span);
  EXPECT_EQ(span.owner.load(), &adopter.heap());
  EXPECT_EQ(span.remote.owner(), adopter.heap().id());
  EXPECT_EQ(near::heap_totals().adoptions, before + 1);
  EXPECT_TRUE(old_owner->registration.parked);
  // A block that was live before is freed to the new owner.
  ended->live().erase(blocks[0]);
  const auto pushed =
      span.remote.push(near::SpanBlocks{span.start}, reinterpret_cast<near::Block*>(blocks[0]));
  EXPECT_TRUE(pushed.first);
  EXPECT_EQ(pushed.owner, adopter.heap().id());
  adopter.heap().receive(&span);
  {
    const near::LockGuard guard(adopter.heap().lock);
    adopter.heap().drain();
  }
  adopter.expect_whole();
  for (char* each :
       std::vector<char*>(blocks.begin() + kSizeClasses[kPlainClass].capacity, blocks.end()))
    ended->free_remotely(each);
  adopter.free(block);
  count_cases(7);
}

TEST_F(RegistryTest, BlocksOnTheirWayToAParkedHeapArriveBeforeAdoption) {
  auto ended = std::make_unique<HeapRoom>();
  const std::vector<char*> blocks = fill(*ended, 2);
  near::Span& span = HeapRoom::span_of(blocks[0]);
  HeapRoom adopter;
  ended->park();
  for (size_t i = 0; i < kSizeClasses[kPlainClass].capacity / 2u; i++)
    ended->free_remotely(blocks[i]);
  EXPECT_FALSE(span.reusable);
  const uint64_t before = near::heap_totals().adoptions;
  EXPECT_EQ(&HeapRoom::span_of(adopter.take(kPlainClass)), &span);
  EXPECT_EQ(near::heap_totals().adoptions, before + 1);
  EXPECT_EQ(span.owner.load(), &adopter.heap());
  while (!ended->live().empty()) ended->free_remotely(ended->live().begin()->first);
  while (!adopter.live().empty()) adopter.free(adopter.live().begin()->first);
  adopter.flush();
  EXPECT_TRUE(adopter.spans().empty());
  count_cases(4);
}

// A push between the look at the inbox and the change of owner keeps the span with its owner.
TEST_F(RegistryTest, ASpanWithBlocksOnTheirWayIsNotAdopted) {
  auto ended = std::make_unique<HeapRoom>();
  const std::vector<char*> blocks = fill(*ended, 2);
  near::Span& span = HeapRoom::span_of(blocks[0]);
  for (size_t i = 1; i < kSizeClasses[kPlainClass].capacity; i++) ended->free(blocks[i]);
  HeapRoom adopter;
  Heap& parked = ended->heap();
  ended->park();
  ended->free_remotely(blocks[0]);
  {
    const near::LockGuard guard(parked.lock);
    EXPECT_EQ(parked.release_span(kPlainClass, adopter.heap()), nullptr);
    parked.drain();
  }
  EXPECT_EQ(span.kind, near::SpanKind::none);
  while (!ended->live().empty()) ended->free_remotely(ended->live().begin()->first);
  count_cases(2);
}

// A thread that starts while parked heaps are visited finds the others.
TEST_F(RegistryTest, AVisitTakesOneHeapAtATime) {
  Heap* first = near::take_heap(0);
  Heap* second = near::take_heap(0);
  near::park_heap(first);
  near::park_heap(second);
  const uint32_t before = near::heap_count();
  Heap* started = nullptr;
  near::visit_parked_heaps(
      [](Heap& heap, void* other) {
        EXPECT_FALSE(heap.registration.parked);
        Heap*& slot = *static_cast<Heap**>(other);
        if (slot == nullptr) slot = near::take_heap(0);
      },
      &started);
  ASSERT_NE(started, nullptr);
  EXPECT_EQ(near::heap_count(), before) << "no heap had to be made";
  near::park_heap(started);
  count_cases();
}

TEST_F(RegistryTest, CleaningEmptiesParkedHeaps) {
  const size_t before = near::nodes[0].totals().in_spans;
  auto ended = std::make_unique<HeapRoom>();
  const std::vector<char*> blocks = fill(*ended, 3);
  for (char* block : blocks) ended->free(block);
  for (int i = 0; i < 10'000; i++) ended->free(ended->take(kPlainClass));  // its hot span stays
  ended->park();
  EXPECT_GT(near::nodes[0].totals().in_spans, before);
  near::clean_heaps(false);
  EXPECT_LE(near::nodes[0].totals().in_spans, before);
  count_cases(2);
}

TEST_F(RegistryTest, CleaningServesOwnersThatDoNotCome) {
  HeapRoom sleeper;
  std::vector<char*> blocks = fill(sleeper, 5);
  blocks.resize(4 * kSizeClasses[kPlainClass].capacity);  // the last span is left alone
  for (char* block : blocks) sleeper.free_remotely(block);
  const uint64_t claims = near::heap_totals().claims;
  // The first pass only notes when the owner was last active.
  near::clean_heaps(false);
  near::clean_heaps(false);
  EXPECT_EQ(near::heap_totals().claims, claims + 4);
  EXPECT_TRUE(sleeper.heap().inbox_empty());
  sleeper.expect_whole();
  while (!sleeper.live().empty()) sleeper.free(sleeper.live().begin()->first);
  sleeper.flush();
  count_cases(2);
}

TEST_F(RegistryTest, AnOwnerThatComesIsLeftAlone) {
  HeapRoom owner;
  std::vector<char*> blocks = fill(owner, 3);
  near::clean_heaps(false);
  near::clean_heaps(false);
  const uint64_t claims = near::heap_totals().claims;
  for (size_t i = 0; i < kSizeClasses[kPlainClass].capacity; i++) owner.free_remotely(blocks[i]);
  while (!owner.heap().inbox_empty()) owner.take(20);  // until its own slow path drains it
  owner.expect_whole();
  near::clean_heaps(false);
  EXPECT_EQ(near::heap_totals().claims, claims);
  while (!owner.live().empty()) owner.free(owner.live().begin()->first);
  owner.flush();
  count_cases(2);
}

TEST_F(RegistryTest, EveryParkedHeapIsVisitedWithItsLock) {
  std::vector<std::unique_ptr<HeapRoom>> rooms;
  for (int i = 0; i < 5; i++) rooms.push_back(std::make_unique<HeapRoom>());
  rooms.clear();
  std::set<Heap*> visited;
  near::visit_parked_heaps(
      [](Heap& heap, void* set) {
        EXPECT_FALSE(heap.lock.try_lock());
        EXPECT_TRUE(static_cast<std::set<Heap*>*>(set)->insert(&heap).second);
      },
      &visited);
  EXPECT_GE(visited.size(), 5u);
  EXPECT_EQ(visited.size(), near::heap_totals().parked);
  for (const Heap* heap : visited) EXPECT_TRUE(heap->registration.parked);
  count_cases(visited.size());
}

// The field of a heap's number limits how many there are: later threads share one heap.
TEST_F(RegistryTest, AThreadForWhichThereIsNoHeapSharesTheLateOne) {
  std::vector<Heap*> taken;
  while (near::heap_totals().parked > 0) taken.push_back(near::take_heap(0));
  const uint32_t before = near::most_heaps.exchange(near::heap_count() + near::kKeptHeaps);
  EXPECT_EQ(near::take_heap(0), nullptr);
  EXPECT_EQ(near::take_bound_heap(0), nullptr);
  std::vector<void*> blocks;
  for (int i = 0; i < 3; i++) {
    std::thread([&blocks] {
      for (size_t size = 1; size < 100'000; size += size / 2 + 1) {
        blocks.push_back(near_malloc(size));
        ASSERT_NE(blocks.back(), nullptr);
        memset(blocks.back(), 1, size);
      }
      near_free(blocks.front());
      blocks.erase(blocks.begin());
      EXPECT_FALSE(near::has_heap());
    }).join();
  }
  EXPECT_NE(near::node_heap(0), nullptr);
  for (void* block : blocks) near_free(block);
  near::most_heaps = before;
  for (Heap* heap : taken) near::park_heap(heap);
  EXPECT_EQ(near_check(), 0u);
  count_cases(blocks.size());
}

// After threads have taken all heaps that they may, the fallback heap and the node heap of each
// node can still be made, and no more. This runs in a child, since heaps stay.
TEST_F(RegistryTest, NumbersAreKeptForSharedHeaps) {
  const int status = run_in_child([] {
    near::most_heaps = near::heap_count() + near::kKeptHeaps + 10;
    while (near::take_heap(0) != nullptr) continue;
    bool served = near::take_bound_heap(0) == nullptr;
    for (unsigned n = 0; n < near::kMaxNodes; n++) {
      if (n >= near::topology.count) near::nodes[n].init(n, 1);
      served = served && near::fallback_heap(n) != nullptr && near::node_heap(n) != nullptr;
    }
    return served && near::heap_count() <= near::most_heaps ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  count_cases();
}

TEST_F(RegistryTest, WithoutMemoryThereIsNoNewHeap) {
  std::vector<Heap*> taken;
  fake_os::fail(OsCall::any, 1, true);
  for (Heap* heap = nullptr; (heap = near::take_heap(0)) != nullptr;) taken.push_back(heap);
  EXPECT_LE(near::heap_totals().parked, 0u);
  fake_os::fail_none();
  Heap* heap = near::take_heap(0);
  EXPECT_NE(heap, nullptr);
  taken.push_back(heap);
  for (Heap* each : taken) near::park_heap(each);
  count_cases(taken.size());
}

}  // namespace
}  // namespace near_test

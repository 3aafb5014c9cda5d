// Parts of NUMAlloc, each tested alone: lists, circular arrays, bags, big objects; and wrong frees.
#include <sys/mman.h>

#include <cstdint>
#include <memory>
#include <random>

#include "designs/late_frees.h"
#include "designs/numalloc/big.h"
#include "designs/numalloc/metadata.h"
#include "designs/numalloc/node_heap.h"
#include "designs/numalloc/node_ring.h"
#include "designs/numalloc_room.h"
#include "support/fake_os.h"

namespace near_test {
namespace {

using near::kKiB;
using near::kMiB;
using near::design::numalloc::Bag;
using near::design::numalloc::BigHeap;
using near::design::numalloc::BigObject;
using near::design::numalloc::class_of;
using near::design::numalloc::kBagSize;
using near::design::numalloc::Metadata;
using near::design::numalloc::NodeRing;
using near::design::numalloc::Object;
using near::design::numalloc::Sublist;
using near::design::numalloc::ThreadList;
using Pushed = ThreadList::Pushed;

TEST(NumallocSizes, TheClassIsTheSmallestThatFits) {
  for (size_t size = 0; size <= kSmallLimit; size += size < 2048 ? 1 : 511) {
    const unsigned size_class = class_of(size);
    EXPECT_GE(kClassSizes[size_class], size);
    if (size_class > 1) {
      EXPECT_LT(kClassSizes[size_class - 1], size);
    }
    count_cases();
  }
}

// Objects that lie on a page each, so that a test can forbid to touch them.
class Pages {
 public:
  explicit Pages(size_t count)
      : count_(count),
        start_(static_cast<char*>(mmap(nullptr, count * kPage, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { munmap(start_, count_ * kPage); }
  Object* at(size_t index) { return reinterpret_cast<Object*>(start_ + index * kPage); }
  void forbid(size_t index) { ASSERT_EQ(mprotect(at(index), kPage, PROT_NONE), 0); }
  void allow_all() { ASSERT_EQ(mprotect(start_, count_ * kPage, PROT_READ | PROT_WRITE), 0); }

 private:
  static constexpr size_t kPage = 65536;
  size_t count_;
  char* start_;
};

std::vector<Object*> chain(const Sublist& list) {
  std::vector<Object*> objects;
  for (Object* object = list.head; object != nullptr; object = object->next) {
    objects.push_back(object);
  }
  EXPECT_EQ(objects.size(), list.count);
  EXPECT_EQ(objects.empty() ? nullptr : objects.back(), list.tail);
  return objects;
}

TEST(NumallocList, TheOldestBatchLeavesAndOnlyTheNthObjectIsTouched) {
  for (const uint32_t batch : {1u, 2u, 5u, 64u}) {
    Pages pages(2 * batch);
    ThreadList list;
    list.set_batch(batch);
    for (uint32_t i = 0; i < 2 * batch; i++) {
      EXPECT_EQ(list.push(pages.at(i)), i + 1 < 2 * batch ? Pushed::fine : Pushed::full);
    }
    // The oldest object of the newer batch is the nth: it becomes the tail.
    for (uint32_t i = 0; i < 2 * batch; i++) {
      if (i != batch) pages.forbid(i);
    }
    Sublist oldest{};
    if (batch > 0) oldest = list.take_oldest();
    // As whole sub-lists into the circular array and out of it again.
    auto room = std::make_unique<Metadata>();
    void* memory = near::os::reserve(kMiB, 4096);
    room->set(reinterpret_cast<uintptr_t>(memory), kMiB);
    NodeRing ring;
    ring.put(oldest, *room);
    oldest = ring.take();
    ThreadList other;
    other.set_batch(batch);
    other.fill(oldest);
    pages.allow_all();
    EXPECT_EQ(other.items(), batch);
    EXPECT_EQ(list.items(), batch);
    const auto left = chain(list.take_all());
    const auto gone = chain(oldest);
    ASSERT_EQ(left.size(), batch);
    ASSERT_EQ(gone.size(), batch);
    for (uint32_t i = 0; i < batch; i++) {
      EXPECT_EQ(gone[i], pages.at(batch - 1 - i));
      EXPECT_EQ(left[i], pages.at(2 * batch - 1 - i));
    }
    near::os::unreserve(memory, kMiB);
    count_cases();
  }
}

// Against a model: a deque of the same objects.
TEST(NumallocList, AgreesWithADequeUnderAnyPushesAndPops) {
  std::mt19937_64 random(7);
  for (const uint32_t batch : {1u, 2u, 3u, 16u}) {
    std::vector<Object> memory(4 * batch + 1);
    std::vector<Object*> outside;
    for (Object& object : memory) outside.push_back(&object);
    std::vector<Object*> model;  // the oldest first
    ThreadList list;
    list.set_batch(batch);
    for (int step = 0; step < 20'000; step++) {
      const bool push = random() % 100 < (step / 500 % 2 == 0 ? 60u : 40u);
      if (push && !outside.empty()) {
        model.push_back(outside.back());
        outside.pop_back();
        if (list.push(model.back()) == Pushed::full) {
          const auto oldest = chain(list.take_oldest());
          ASSERT_EQ(oldest.size(), batch);
          for (uint32_t i = 0; i < batch; i++) ASSERT_EQ(oldest[i], model[batch - 1 - i]);
          outside.insert(outside.end(), oldest.begin(), oldest.end());
          model.erase(model.begin(), model.begin() + batch);
        }
      } else {
        Object* object = list.pop();
        ASSERT_EQ(object, model.empty() ? nullptr : model.back());
        if (object == nullptr) continue;
        model.pop_back();
        outside.push_back(object);
      }
      ASSERT_EQ(list.items(), model.size());
    }
    count_cases();
  }
}

TEST(NumallocList, RepairCountsWhatAForkInterrupted) {
  Object objects[6];
  ThreadList list;
  list.set_batch(2);
  for (int i = 0; i < 3; i++) list.push(&objects[i]);
  // The state after a thread has stored the link and the head, and nothing else.
  Sublist all = list.take_all();
  objects[3].next = all.head;
  list.fill({&objects[3], nullptr, 3});
  list.repair();
  const auto found = chain(list.take_all());
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found.back(), &objects[0]);
  count_cases();
}

class NumallocRing : public testing::Test {
 protected:
  void SetUp() override {
    memory_ = near::os::reserve(kMiB, 4096);
    metadata_.set(reinterpret_cast<uintptr_t>(memory_), kMiB);
  }
  void TearDown() override {
    fake_os::fail_none();
    near::os::unreserve(memory_, kMiB);
  }
  Sublist make(uint32_t count) {
    objects_.push_back(std::make_unique<Object[]>(count));
    Object* all = objects_.back().get();
    for (uint32_t i = 0; i < count; i++) all[i].next = i + 1 < count ? &all[i + 1] : nullptr;
    return {all, &all[count - 1], count};
  }

  Metadata metadata_;
  NodeRing ring_;
  void* memory_ = nullptr;
  std::vector<std::unique_ptr<Object[]>> objects_;
};

TEST_F(NumallocRing, SublistsLeaveInTheOrderInWhichTheyCameWhileItGrows) {
  uint32_t put = 0;
  uint32_t taken = 0;
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 5; i++) ring_.put(make(1 + put++ % 7), metadata_);
    for (int i = 0; i < 3; i++) {
      EXPECT_EQ(ring_.take().count, 1 + taken++ % 7);
      count_cases();
    }
  }
  EXPECT_GE(ring_.slots(), 40u);
  while (taken < put) EXPECT_EQ(ring_.take().count, 1 + taken++ % 7);
  EXPECT_EQ(ring_.objects(), 0u);
  EXPECT_EQ(ring_.take().count, 0u);
}

TEST_F(NumallocRing, SingleObjectsGatherUntilTheyAreABatch) {
  Object objects[8];
  for (Object& object : objects) EXPECT_TRUE(ring_.put_one(&object, 4, metadata_));
  EXPECT_FALSE(ring_.put_one(&objects[0], 4, metadata_) &&
               ring_.put_one(&objects[0], 4, metadata_));
  EXPECT_EQ(chain(ring_.take()).size(), 4u);
  EXPECT_EQ(chain(ring_.take()).size(), 4u);
  EXPECT_EQ(ring_.take().count, 1u);
  count_cases();
}

TEST_F(NumallocRing, ARefusedArrayLosesNothing) {
  fake_os::fail(OsCall::commit, 1, true);
  for (int i = 0; i < 20; i++) ring_.put(make(3), metadata_);
  EXPECT_EQ(ring_.objects(), 60u);
  size_t found = 0;
  while (Object* object = ring_.take_one()) found += object != nullptr ? 1 : 0;
  EXPECT_EQ(found, 60u);
  count_cases();
}

TEST(NumallocBag, GivesEveryObjectOnce) {
  std::vector<char> memory(kSmallLimit);
  for (unsigned c = 1; c < kClasses; c++) {
    Bag bag;
    EXPECT_EQ(bag.carve(c, 9).count, 0u);
    bag.open(memory.data(), c);
    size_t objects = 0;
    while (!bag.empty()) {
      for (Object* object : chain(bag.carve(c, 9))) {
        const auto offset = static_cast<size_t>(reinterpret_cast<char*>(object) - memory.data());
        EXPECT_EQ(offset, objects++ * kClassSizes[c]);
      }
    }
    EXPECT_EQ(objects, std::max<size_t>(1, kBagSize / kClassSizes[c]));
    count_cases();
  }
}

class NumallocBig : public testing::Test {
 protected:
  static constexpr size_t kHalf = 64 * kMiB;
  void SetUp() override {
    memory_ = near::os::reserve(kHalf + 2 * kMiB, 2 * kMiB);
    const auto start = reinterpret_cast<uintptr_t>(memory_);
    metadata_.set(start + kHalf, kMiB);
    heap_.set(start, kHalf, reinterpret_cast<BigObject**>(start + kHalf + kMiB), &metadata_);
    ASSERT_TRUE(near::os::make_readable(reinterpret_cast<void*>(start + kHalf + kMiB), kMiB));
  }
  void TearDown() override {
    fake_os::fail_none();
    near::os::unreserve(memory_, kHalf + 2 * kMiB);
  }
  char* allocate(size_t size, size_t alignment = kBagSize) {
    return static_cast<char*>(heap_.allocate(size, alignment, zeroed_));
  }

  Metadata metadata_;
  BigHeap heap_;
  void* memory_ = nullptr;
  bool zeroed_ = false;
};

TEST_F(NumallocBig, NeighboursThatAreFreeBecomeOne) {
  char* blocks[3];
  for (char*& block : blocks) block = allocate(kMiB);
  for (const int first : {0, 2, 1})
    EXPECT_EQ(heap_.release(blocks[first], false), BigHeap::Freed::fine);
  EXPECT_EQ(heap_.statistics().coalesced, 2u);
  EXPECT_TRUE(heap_.check());
  EXPECT_EQ(allocate(3 * kMiB), blocks[0]);
  EXPECT_FALSE(zeroed_);
  EXPECT_TRUE(heap_.check());
  count_cases();
}

TEST_F(NumallocBig, WrongFreesAreKnown) {
  char* block = allocate(kMiB);
  EXPECT_EQ(heap_.release(block + kBagSize, false), BigHeap::Freed::no_object);
  EXPECT_EQ(heap_.release(block + 16, false), BigHeap::Freed::no_object);
  EXPECT_EQ(heap_.release(block + 8 * kMiB, false), BigHeap::Freed::no_object);
  EXPECT_EQ(heap_.release(block, false), BigHeap::Freed::fine);
  EXPECT_EQ(heap_.release(block, false), BigHeap::Freed::twice);
  count_cases(5);
}

TEST_F(NumallocBig, RandomUseKeepsTheInvariantAndRefusalsLoseNothing) {
  std::mt19937_64 random(11);
  std::vector<std::pair<char*, size_t>> live;
  for (int step = 0; step < 4000; step++) {
    if (step % 500 == 499) fake_os::fail(OsCall::commit, 1 + random() % 2, false);
    const size_t size = kBagSize * (1 + random() % 60) - random() % 100;
    const size_t alignment = kBagSize << random() % 5;
    const size_t index = live.empty() ? 0 : random() % live.size();
    if (live.size() < 10 || random() % 3 == 0) {
      char* block = allocate(size, alignment);
      if (block == nullptr) continue;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u);
      EXPECT_GE(heap_.usable_size(block), size);
      if (zeroed_) {
        EXPECT_EQ(block[0] | block[size - 1], 0);
      }
      memset(block, 1, size);
      live.emplace_back(block, size);
    } else if (random() % 2 == 0) {
      if (heap_.resize(live[index].first, size)) live[index].second = size;
      EXPECT_GE(heap_.usable_size(live[index].first), live[index].second);
      memset(live[index].first, 1, live[index].second);
    } else {
      EXPECT_EQ(heap_.release(live[index].first, false), BigHeap::Freed::fine);
      live[index] = live.back();
      live.pop_back();
    }
    ASSERT_TRUE(heap_.check()) << step;
    count_cases();
  }
  EXPECT_EQ(heap_.statistics().live, live.size());
  for (const auto& [block, size] : live) heap_.release(block, false);
  EXPECT_EQ(heap_.statistics().live_bytes, 0u);
  // One free object, except the end that no thread has had.
  EXPECT_NE(allocate(kHalf / 2), nullptr);
}

TEST_F(NumallocBig, GrowsInPlaceIntoAFreeNeighbourOrNewMemory) {
  char* block = allocate(kMiB);
  EXPECT_TRUE(heap_.resize(block, 3 * kMiB));
  char* after = allocate(kMiB);
  EXPECT_FALSE(heap_.resize(block, 4 * kMiB));
  heap_.release(after, false);
  EXPECT_TRUE(heap_.resize(block, 3 * kMiB + kBagSize));
  EXPECT_TRUE(heap_.resize(block, kMiB));
  EXPECT_EQ(heap_.usable_size(block), kMiB);
  EXPECT_TRUE(heap_.check());
  EXPECT_EQ(heap_.statistics().live_bytes, kMiB);
  count_cases(4);
}

// --- the whole, on one node ----------------------------------------------------------------------

TEST(Numalloc, WhatIsNoBlockIsReported) {
  void* small = near_malloc(100);
  void* big = near_malloc(kMiB);
  EXPECT_DEATH(near_free(static_cast<char*>(small) + 8), "invalid free");
  EXPECT_DEATH(near_free(static_cast<char*>(big) + 8), "no object starts there");
  EXPECT_DEATH((near_free(big), near_free(big)), "free already");
  EXPECT_DEATH((near_free(small), near_free(small)), "free already");
  const auto never = reinterpret_cast<void*>(regions.small_start(0) + regions.half_size() / 2);
  EXPECT_DEATH(near_free(never), "no object was ever there");
  EXPECT_EQ(near_malloc_usable_size(never), 0u);
  near_free(small);
  near_free(big);
  count_cases(6);
}

TEST(Numalloc, AlignedBlocksAreRightAndGoBack) {
  for (size_t alignment = 16; alignment <= 4 * kMiB; alignment *= 2) {
    for (const size_t size : {size_t{1}, size_t{96}, size_t{160}, size_t{5000}, 300 * kKiB, kMiB}) {
      void* blocks[3];
      for (void*& block : blocks) {
        block = near_aligned_alloc(alignment, size);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u);
        EXPECT_GE(near_malloc_usable_size(block), size);
        memset(block, 1, size);
      }
      void* larger = near_realloc(blocks[0], 2 * size);
      EXPECT_EQ(*static_cast<char*>(larger), 1);
      near_free(larger);
      near_free(blocks[1]);
      near_free(blocks[2]);
      count_cases();
    }
  }
}

TEST(Numalloc, AThreadThatEndsLeavesItsObjectsAndItsHeapToOthers) {
  const auto work = [] { free_all(allocate_many(64)); };
  on_cpu(0, work);
  const uint64_t made = counter("heaps made");
  const uint64_t carved = counter("carved objects");
  for (int i = 0; i < 50; i++) on_cpu(0, work);
  EXPECT_EQ(counter("heaps made"), made);
  EXPECT_LE(counter("carved objects"), carved + 64);
  count_cases();
}

TEST(Numalloc, AThreadThatFreesAtItsEndLeavesNoHeap) {
  expect_nothing_left_by_late_frees([] { return near_malloc(64); }, near_free,
                                    [] { return counter("heaps made"); });
}

TEST(Numalloc, RefusedMemoryIsNullAndNothingIsLost) {
  std::vector<void*> blocks;
  fake_os::fail(OsCall::commit, 1, true);
  while (void* block = near_malloc(5000)) blocks.push_back(block);
  EXPECT_EQ(near_malloc(64 * kMiB), nullptr);
  const size_t got = blocks.size();
  free_all(blocks);
  blocks.clear();
  while (void* block = near_malloc(5000)) blocks.push_back(block);
  EXPECT_GE(blocks.size(), got);
  fake_os::fail_none();
  free_all(blocks);
  void* again = near_malloc(64 * kMiB);
  EXPECT_NE(again, nullptr);
  near_free(again);
  count_cases(2);
}

}  // namespace
}  // namespace near_test

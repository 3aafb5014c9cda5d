// ibr and hyaline: a thread that stalls keeps what lived when it last read a pointer, and nothing
// that was born later.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "born_objects.h"
#include "every_scheme.h"
#include "nearmalloc/reclaim/abtree.hpp"
#include "nearmalloc/reclaim/hash_map.hpp"
#include "nearmalloc/reclaim/list.hpp"
#include "nearmalloc/reclaim/occtree.hpp"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace near::reclaim;

// Threads wait that would exceed so many bytes.
options limited_to(size_t bytes, options settings = {}) {
  settings.max_unreclaimed_bytes = bytes;
  settings.when_full = at_limit::block;
  return settings;
}

template <class Scheme>
class Eras : public testing::Test {
 protected:
  using Domain = domain<Scheme>;

  void SetUp() override { live_objects = 0; }

  // Each object lives for one operation.
  template <class Handle>
  static void replace(Handle& handle, std::atomic<Born*>& source, size_t times) {
    for (size_t i = 0; i < times; i++) {
      auto guard = handle.pin();
      guard.retire(source.exchange(new Born));
    }
  }
};

using Schemes = testing::Types<ibr, hyaline>;
TYPED_TEST_SUITE(Eras, Schemes);

TYPED_TEST(Eras, AStalledThreadKeepsNothingThatWasBornLater) {
  constexpr long kBatch = 256;
  domain<TypeParam> domain(batches_of(kBatch));
  std::atomic<Born*> source{new Born};
  auto reader = domain.attach();
  auto writer = domain.attach();
  {
    auto guard = reader.pin();
    const Born* held = guard.protect(0, source);
    this->replace(writer, source, scaled(50'000));
    EXPECT_TRUE(held->is_alive());
    EXPECT_LE(live_objects, 5 * kBatch);
    // What it reads now extends what it keeps; the first object stays.
    const Born* also_held = guard.protect(0, source);
    this->replace(writer, source, scaled(50'000));
    EXPECT_TRUE(held->is_alive());
    EXPECT_TRUE(also_held->is_alive());
    EXPECT_LE(live_objects, 10 * kBatch);
  }
  this->replace(writer, source, 5 * kBatch);
  EXPECT_LE(live_objects, 5 * kBatch);
  delete source.load();
  domain.barrier();
  EXPECT_EQ(live_objects, 0);
  count_cases();
}

TYPED_TEST(Eras, AnObjectWithoutABirthIsKeptByEveryReaderOfItsEnd) {
  domain<TypeParam> domain(batches_of(64));
  auto reader = domain.attach();
  auto writer = domain.attach();
  {
    auto guard = reader.pin();
    for (int i = 0; i < 1000; i++) writer.retire(new CountedObject);
    EXPECT_EQ(live_objects, 1000);
  }
  domain.barrier();
  EXPECT_EQ(live_objects, 0);
  count_cases();
}

TYPED_TEST(Eras, AGuardProtectsMoreThanItHasSlots) {
  domain<TypeParam> domain(batches_of(64));
  std::vector<std::atomic<Born*>> sources(1000);
  for (auto& each : sources) each = new Born;
  auto reader = domain.attach();
  auto writer = domain.attach();
  auto guard = reader.pin();
  std::vector<const Born*> seen;
  for (auto& each : sources) seen.push_back(guard.protect(0, each));
  for (auto& each : sources) this->replace(writer, each, 3);
  for (const Born* each : seen) EXPECT_TRUE(each->is_alive());
  for (auto& each : sources) delete each.load();
  count_cases();
}

// `hold` reserves the era; an object that is found later, at the same address, may be younger.
TYPED_TEST(Eras, WhatIsHeldIsHeldInItsEraOnly) {
  domain<TypeParam> domain(batches_of(64));
  std::atomic<Born*> source{new Born};
  auto reader = domain.attach();
  auto writer = domain.attach();
  auto guard = reader.pin();
  guard.hold(0, source.load());
  EXPECT_TRUE(guard.still_holds());
  this->replace(writer, source, 1000);
  EXPECT_FALSE(guard.still_holds());
  guard.hold(0, source.load());
  EXPECT_TRUE(guard.still_holds());
  delete source.load();
  count_cases();
}

// Two domains have one era, so neither frees what the other's light fences have not shown.
TYPED_TEST(Eras, DomainsWithBothKindsOfFenceShareTheEra) {
  options fenced = batches_of(64);
  fenced.asymmetric = false;
  domain<TypeParam> one(batches_of(64));
  domain<TypeParam> other(fenced);
  std::atomic<Born*> sources[2] = {new Born, new Born};
  std::atomic<int> dead{0};
  run_threads(4, [&](size_t number) {
    domain<TypeParam>& domain = number % 2 == 0 ? one : other;
    auto handle = domain.attach();
    for (size_t i = 0; i < scaled(20'000); i++) {
      auto guard = handle.pin();
      if (!guard.protect(0, sources[number % 2])->is_alive()) dead++;
      guard.retire(sources[number % 2].exchange(new Born));
    }
  });
  EXPECT_EQ(dead, 0);
  for (auto& each : sources) delete each.load();
  one.barrier();
  other.barrier();
  EXPECT_EQ(live_objects, 0);
  count_cases();
}

// A structure in which a reader stalls: what is unreclaimed stays near what it holds.
template <class Scheme>
using List = list_set<int64_t, uint64_t, domain<Scheme>>;
template <class Scheme>
using Map = hash_map<int64_t, uint64_t, domain<Scheme>>;
template <class Scheme>
using Tree = abtree<int64_t, uint64_t, domain<Scheme>>;
template <class Scheme>
using BinaryTree = occtree<int64_t, uint64_t, domain<Scheme>>;
template <template <class> class Structure, class Scheme>
struct Under {
  using Domain = domain<Scheme>;
  using Set = Structure<Scheme>;
};
template <class Case>
class ErasInStructure : public testing::Test {};
using Structures =
    testing::Types<Under<List, ibr>, Under<Map, ibr>, Under<Tree, ibr>, Under<BinaryTree, ibr>,
                   Under<List, hyaline>, Under<Tree, hyaline>>;
TYPED_TEST_SUITE(ErasInStructure, Structures);

TYPED_TEST(ErasInStructure, GarbageIsBoundedWhileAReaderStalls) {
  constexpr int64_t kKeys = 64;
  constexpr uint64_t kBatch = 128;
  typename TypeParam::Domain domain(batches_of(kBatch));
  typename TypeParam::Set set(domain);
  for (int64_t key = 0; key < kKeys; key++) set.insert(key, 1);
  auto reader = domain.attach();
  auto guard = reader.pin();
  EXPECT_TRUE(set.contains(guard, kKeys / 2));
  uint64_t most = 0;
  run_threads(2, [&](size_t number) {
    for (size_t i = 0; i < scaled(20'000); i++) {
      const auto key = static_cast<int64_t>(i * 7 + number) % kKeys;
      if (!set.insert(key, 1)) set.erase(key);
      if (number == 0 && i % 64 == 0) most = std::max(most, domain.collect().unreclaimed);
    }
  });
  // The system may suspend a writer inside an operation: then it is a second reader that stalls.
  EXPECT_LE(most, 2 * 3 * (5 * kBatch + 2 * kKeys));
  EXPECT_GT(domain.collect().freed, domain.collect().retired / 2);
  EXPECT_TRUE(set.check());
  count_cases();
}

// The limit of bytes while a reader stalls: it must exceed what the reader keeps.
TYPED_TEST(Eras, ThreadsThatWaitKeepTheLimitWhileAReaderStalls) {
  constexpr size_t kBytes = 1000;
  constexpr size_t kLimit = 1000 * kBytes;
  domain<TypeParam> domain(limited_to(kLimit));
  std::atomic<Born*> source{new Born};
  auto reader = domain.attach();
  auto guard = reader.pin();
  const Born* held = guard.protect(0, source);
  std::atomic<uint64_t> most{0};
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(scaled(500));
  run_threads(3, [&](size_t number) {
    auto handle = domain.attach();
    while (std::chrono::steady_clock::now() < end) {
      auto mine = handle.pin();
      for (int i = 0; i < 3; i++) mine.retire(source.exchange(new Born), kBytes);
      if (number == 0) {
        most = std::max(most.load(), static_cast<uint64_t>(live_objects.load()) * kBytes);
      }
    }
  });
  EXPECT_TRUE(held->is_alive());
  // Each thread may exceed it by what it retires in a pin; a few objects are not retired yet.
  EXPECT_LE(most, kLimit + 2 * 3 * 3 * kBytes);
  EXPECT_GT(domain.collect().looks, 0u);
  EXPECT_GT(domain.collect().freed, 100u);
  delete source.load();
  count_cases();
}

// Eras begin as credit is taken, although the batches are larger than the limit.
TYPED_TEST(Eras, ALimitBelowABatchHasRoomWhileAReaderStalls) {
  constexpr size_t kBytes = 1000;
  domain<TypeParam> domain(limited_to(100 * kBytes, batches_of(1'000'000)));
  std::atomic<Born*> source{new Born};
  auto reader = domain.attach();
  auto guard = reader.pin();
  const Born* held = guard.protect(0, source);
  run_threads(1, [&](size_t) {
    auto handle = domain.attach();
    for (size_t i = 0; i < scaled(10'000); i++) {
      auto mine = handle.pin();
      mine.retire(source.exchange(new Born), kBytes);
    }
  });
  EXPECT_TRUE(held->is_alive());
  EXPECT_LE(domain.collect().unreclaimed_bytes, 101 * kBytes);
  delete source.load();
  count_cases();
}

// If all that waits lived when the reader stalled, the others wait for it.
TYPED_TEST(Eras, ThreadsWaitIfTheReaderKeepsTheWholeLimit) {
  constexpr size_t kBytes = 1000;
  domain<TypeParam> domain(limited_to(100 * kBytes));
  std::vector<Born*> objects(200);
  for (Born*& each : objects) each = new Born;
  std::atomic<size_t> retired{0};
  auto reader = domain.attach();
  std::thread writer;
  {
    auto guard = reader.pin();
    writer = std::thread([&] {
      for (Born* each : objects) {
        domain.retire(each, kBytes);
        retired++;
      }
    });
    while (retired < 100) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_LE(retired, 101u);
  }
  writer.join();
  EXPECT_EQ(retired, objects.size());
  EXPECT_LE(domain.collect().unreclaimed_bytes, 101 * kBytes);
  count_cases();
}

// A deleter with a state needs a block, which no slot could hold.
TYPED_TEST(Eras, DeletersMayHaveAState) {
  domain<TypeParam> domain(batches_of(64));
  std::atomic<int> destroyed{0};
  domain.pin().retire_with(new Born, [&destroyed](Born* each) noexcept {
    delete each;
    destroyed++;
  });
  domain.barrier();
  EXPECT_EQ(destroyed, 1);
  count_cases();
}

}  // namespace
}  // namespace near_test

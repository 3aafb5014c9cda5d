// Sets and maps where memory is refused, where values own memory, and where a hash map's hashes
// tell keys well apart or not at all.
#include <gtest/gtest.h>

#include <new>
#include <string>

#include "checked_heap.h"
#include "nearmalloc/reclaim/abtree.hpp"
#include "nearmalloc/reclaim/domain.hpp"
#include "nearmalloc/reclaim/hash_map.hpp"
#include "nearmalloc/reclaim/list.hpp"
#include "nearmalloc/reclaim/occtree.hpp"
#include "nearmalloc/reclaim/schemes.hpp"
#include "nearmalloc/reclaim/skip_list.hpp"
#include "set_checks.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using Domain = near::reclaim::domain<near::reclaim::debra<>>;
using SmallMap = near::reclaim::hash_map<Key, uint64_t, Domain>;

// Calls `operation` with memory for no block, then for one, and so on until it succeeds: before, it
// throws, and nothing has changed.
template <class Set, class Operation>
void expect_all_or_nothing(Set& set, const Operation& operation, int change) {
  for (size_t blocks = 1;; ++blocks) {
    ASSERT_LT(blocks, 50u);
    const size_t size = set.size();
    const uint64_t sum = set.key_sum();
    refuse_memory_after(blocks);
    bool done = false;
    try {
      done = operation();
    } catch (const std::bad_alloc&) {
    }
    refuse_memory_after(0);
    ASSERT_TRUE(set.check());
    ASSERT_EQ(static_cast<int>(set.size()), static_cast<int>(size) + (done ? change : 0));
    ASSERT_TRUE(done || set.key_sum() == sum);
    if (done) return;
  }
}

template <class Set>
void refuse_memory(Set& set, Domain& domain) {
  auto handle = domain.attach();
  for (int64_t key = 0; key < 200; ++key) {
    auto guard = handle.pin();
    expect_all_or_nothing(set, [&] { return set.insert(guard, key * 7 % 200, stamp(key)); }, 1);
    count_cases();
  }
  for (int64_t key = 0; key < 200; ++key) {
    auto guard = handle.pin();
    expect_all_or_nothing(set, [&] { return set.erase(guard, key * 11 % 200); }, -1);
    count_cases();
  }
}

template <class Set>
class RefusedMemory : public testing::Test {};
using Sets = testing::Types<near::reclaim::list_set<Key, uint64_t, Domain>, SmallMap,
                            near::reclaim::abtree<Key, uint64_t, Domain>,
                            near::reclaim::skip_list<Key, uint64_t, Domain>,
                            near::reclaim::occtree<Key, uint64_t, Domain>>;
TYPED_TEST_SUITE(RefusedMemory, Sets);

TYPED_TEST(RefusedMemory, ChangesNothing) {
  if (!has_checked_heap()) GTEST_SKIP() << "a sanitizer owns the heap";
  Domain domain;
  TypeParam set(domain);
  refuse_memory(set, domain);
}

TEST(ValuesThatOwnMemory, AreDestroyedOnceEach) {
  using Owner = std::string;  // longer than fits inside, so each copy is a block
  const Owner value(100, 'v');
  const size_t before = has_checked_heap() ? live_blocks() : 0;
  {
    Domain domain;
    near::reclaim::list_set<int64_t, Owner, Domain> list(domain);
    near::reclaim::hash_map<int64_t, Owner, Domain> map(domain);
    for (int64_t key = 0; key < 300; ++key) {
      EXPECT_TRUE(list.insert(key, value));
      EXPECT_TRUE(map.insert(key, value));
      EXPECT_FALSE(map.insert(key, Owner()));
      EXPECT_EQ(map.find(key), value);
      EXPECT_TRUE(key % 3 != 0 || (list.erase(key) && map.erase(key)));
    }
    EXPECT_EQ(list.size(), 200u);
    EXPECT_EQ(map.size(), 200u);
  }
  EXPECT_TRUE(!has_checked_heap() || live_blocks() == before);
  count_cases();
}

TEST(HashMap, GrowsWithItsElementsAndKeepsThem) {
  Domain domain;
  SmallMap map(domain, 1);
  const auto number = static_cast<int64_t>(scaled(100000));
  for (int64_t key = 0; key < number; ++key) ASSERT_TRUE(map.insert(key << 20, stamp(key)));
  EXPECT_GE(map.buckets() * 2, static_cast<size_t>(number));
  EXPECT_LE(map.buckets() / 4, static_cast<size_t>(number));
  for (int64_t key = 0; key < number; ++key) ASSERT_EQ(map.find(key << 20), stamp(key));
  EXPECT_TRUE(map.check());
  count_cases(static_cast<size_t>(number));
}

// All threads use the same new bucket at about the same time, again and again.
TEST(HashMap, BucketsHaveOneDummyWhenThreadsMeetInThem) {
  for (size_t round = 0; round < scaled(10); ++round) {
    Domain domain;
    SmallMap map(domain, 1);
    run_threads(4, [&](size_t) {
      for (int64_t key = 0; key < 20000; ++key) map.insert(key, stamp(key));
    });
    ASSERT_TRUE(map.check());
    ASSERT_EQ(map.size(), 20000u);
    count_cases();
  }
}

struct SameHash {
  size_t operator()(const Key&) const { return 42; }
};

TEST(HashMap, IsCorrectWhenAllHashesAgree) {
  using Map = near::reclaim::hash_map<Key, uint64_t, Domain, SameHash>;
  Domain domain;
  Map map(domain, 4);
  SetOf<Map, Domain> alone(map, domain);
  check_sequential(alone, {.keys = 60, .operations = scaled(1000)}, 50);
  Map other(domain, 4);
  SetOf<Map, Domain> shared(other, domain);
  check_concurrent(shared, {.keys = 60, .operations = scaled(800), .finds = 20});
}

}  // namespace
}  // namespace near_test

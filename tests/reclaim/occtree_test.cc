// The occtree under every scheme and both locks: against a model, under concurrent updates, and
// with locks that give the processor away at the worst moments.
#include "nearmalloc/reclaim/occtree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nearmalloc/reclaim/domain.hpp"
#include "reclaim/any_set.h"
#include "reclaim/eager_domain.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using near::reclaim::debra;
using near::reclaim::domain;
using near::reclaim::hazard_pointers;
using near::reclaim::occtree;
using near::reclaim::options;
using near::reclaim::ping_epochs;
using near::reclaim::policy;
using near::reclaim::spin_lock;
using near::reclaim::token;
using near::reclaim::waiting_lock;

std::mt19937_64 stream(size_t number) { return std::mt19937_64(seed() + number); }

// Yields around critical sections now and then, so that two processors produce the interleavings of
// many.
class YieldingLock : public waiting_lock {
 public:
  void lock() noexcept {
    maybe_yield();
    waiting_lock::lock();
    maybe_yield();
  }
  void unlock() noexcept {
    maybe_yield();
    waiting_lock::unlock();
    maybe_yield();
  }

 private:
  static void maybe_yield() {
    thread_local std::minstd_rand random(std::random_device{}());
    if (random() % 128 == 0) std::this_thread::yield();
  }
};

// Counts the nodes that are made and freed, and can refuse to make one.
class CountingLock : public spin_lock {
 public:
  CountingLock() {
    if (refuse) throw std::bad_alloc();
    made++;
  }
  ~CountingLock() { freed++; }
  static inline bool refuse = false;
  static inline size_t made = 0;
  static inline size_t freed = 0;
};

// Holds late now and then, when the object may already be unlinked and freed. It counts holds over
// the thread's operations: one operation holds too rarely for the eager domain's own count.
class LateDomain : public EagerDomain {
 public:
  class guard_type : public EagerDomain::guard_type {
   public:
    using EagerDomain::guard_type::guard_type;
    void hold(unsigned slot, const void* object) {
      static thread_local unsigned turn = 0;
      if (++turn % 64 == 0) std::this_thread::yield();
      EagerDomain::guard_type::hold(slot, object);
    }
  };
  struct handle_type {
    LateDomain& domain;
    guard_type pin() { return guard_type(domain); }
  };
  handle_type attach() { return {*this}; }
  guard_type pin() { return guard_type(*this); }
};

// Frees as early as the scheme can.
template <class Scheme>
class Hasty : public domain<Scheme> {
 public:
  Hasty() : domain<Scheme>(options{.reclaim = policy::batch(), .batch_size = 1}) {}
};

// A kind whose lock yields all the time does fewer operations.
struct Kind {
  const char* name;
  bool yields;
  std::unique_ptr<Trial> (*make)();
};

class Occtree : public testing::TestWithParam<Kind> {
 public:
  std::unique_ptr<Trial> trial = GetParam().make();
  AnySet& tree = trial->set();

  static size_t share(size_t operations) {
    return scaled(GetParam().yields ? operations / 10 : operations);
  }

  // What is put under a key: tells the key, and which insert of it.
  static uint64_t value_of(int64_t key, uint64_t number) {
    return static_cast<uint64_t>(key) << 32 | (number & 0xffffffff);
  }
  static bool is_value_of(int64_t key, uint64_t value) {
    return value >> 32 == static_cast<uint64_t>(key);
  }

  // Random updates of `keys` keys, from `first` on and `stride` apart. Returns the sum of those put
  // in less the sum of those taken out.
  uint64_t update(size_t number, int64_t keys, int64_t stride, size_t operations,
                  int64_t first = 0) {
    std::mt19937_64 random = stream(number);
    uint64_t sum = 0;
    for (size_t i = 0; i < operations; i++) {
      const auto key =
          first + static_cast<int64_t>(random() % static_cast<uint64_t>(keys)) * stride;
      if (random() % 2 == 0) {
        if (tree.insert(key, value_of(key, random()))) sum += static_cast<uint64_t>(key);
      } else {
        if (tree.erase(key)) sum -= static_cast<uint64_t>(key);
      }
    }
    return sum;
  }

  static constexpr int64_t kStaying = 100;
  void put_keys_that_stay() {
    for (int64_t key = 0; key < 3 * kStaying; key += 3)
      ASSERT_TRUE(tree.insert(key, value_of(key, 7)));
  }

  // Calls `look` again and again while two threads update the keys one above those that stay.
  template <class Look>
  void during_updates(size_t operations, Look look) {
    std::atomic<int> working{2};
    Threads updaters(2, [&](size_t t) {
      update(t, kStaying, 3, operations, 1);
      working--;
    });
    do {
      look();
      count_cases();
    } while (working != 0);
    updaters.join();
  }

  void expect_key_sum_after(unsigned threads, int64_t keys, size_t operations) {
    const uint64_t before = tree.key_sum();
    std::atomic<uint64_t> sum{0};
    run_threads(threads, [&](size_t t) { sum += update(t, keys, 1, operations); });
    EXPECT_EQ(tree.key_sum(), before + sum);
    EXPECT_TRUE(tree.check());
    count_cases(threads * operations);
  }
};

template <class Domain, class Lock>
std::unique_ptr<Trial> make_trial() {
  return std::make_unique<TrialOf<occtree<Key, uint64_t, Domain, Lock>, Domain>>();
}

constexpr Kind kKinds[] = {
    {"debra", false, make_trial<Hasty<debra<>>, waiting_lock>},
    {"debra_spinning", false, make_trial<Hasty<debra<>>, spin_lock>},
    {"checkpoints", false, make_trial<Hasty<near::reclaim::checkpoints>, waiting_lock>},
    {"token", false, make_trial<Hasty<token<>>, waiting_lock>},
    {"hazard_pointers", false, make_trial<Hasty<hazard_pointers>, waiting_lock>},
    {"hazard_pointers_yielding", true, make_trial<Hasty<hazard_pointers>, YieldingLock>},
    {"ping_epochs", false, make_trial<Hasty<ping_epochs>, waiting_lock>},
    {"ibr", false, make_trial<Hasty<near::reclaim::ibr>, waiting_lock>},
    {"hyaline", false, make_trial<Hasty<near::reclaim::hyaline>, waiting_lock>},
    {"late", true, make_trial<LateDomain, waiting_lock>},
    {"late_yielding", true, make_trial<LateDomain, YieldingLock>},
};
std::string name_of(const testing::TestParamInfo<Kind>& row) { return row.param.name; }

INSTANTIATE_TEST_SUITE_P(Kinds, Occtree, testing::ValuesIn(kKinds), name_of);

TEST_P(Occtree, DoesWhatAMapDoes) {
  std::mt19937_64 random = stream(0);
  for (const int64_t keys : {4, 40, 400}) {
    const std::unique_ptr<Trial> again = GetParam().make();
    AnySet& fresh = again->set();
    std::map<int64_t, uint64_t> model;
    for (size_t i = 0; i < share(6'000); i++) {
      const auto key = static_cast<int64_t>(random() % static_cast<uint64_t>(keys)) - keys / 2;
      const uint64_t value = random();
      if (random() % 2 == 0) {
        ASSERT_EQ(fresh.insert(key, value), model.emplace(key, value).second);
      } else {
        ASSERT_EQ(fresh.erase(key), model.erase(key) == 1);
      }
      const int64_t other = static_cast<int64_t>(random() % static_cast<uint64_t>(keys)) - keys / 2;
      const auto expected = model.find(other);
      ASSERT_EQ(fresh.contains(other), expected != model.end());
      ASSERT_EQ(fresh.find(other),
                expected != model.end() ? std::optional(expected->second) : std::nullopt);
      ASSERT_TRUE(fresh.check());
      ASSERT_EQ(fresh.size(), model.size());
      count_cases();
    }
  }
}

TEST_P(Occtree, RangesAreThoseOfAMap) {
  std::mt19937_64 random = stream(1);
  std::map<int64_t, uint64_t> model;
  for (size_t i = 0; i < share(500); i++) {
    for (int j = 0; j < 4; j++) {
      const auto key = static_cast<int64_t>(random() % 200);
      if (tree.insert(key, i)) model.emplace(key, i);
      const auto erased = static_cast<int64_t>(random() % 200);
      if (tree.erase(erased)) model.erase(erased);
    }
    const auto low = static_cast<int64_t>(random() % 220) - 10;
    const auto high = static_cast<int64_t>(random() % 220) - 10;
    std::vector<std::pair<int64_t, uint64_t>> seen;
    const size_t visited = tree.range(low, high, [&](const Key& key, uint64_t value) {
      seen.emplace_back(static_cast<int64_t>(key), value);
    });
    const std::vector<std::pair<int64_t, uint64_t>> expected(
        model.lower_bound(low), model.lower_bound(std::max(low, high)));
    ASSERT_EQ(seen, expected);
    ASSERT_EQ(visited, seen.size());
    count_cases();
  }
}

// At key 10 the erasure of 30 makes 20, the next key of the range, the child of 10.
TEST_P(Occtree, ARangeGoesOnceThroughWhatItsVisitorRotates) {
  for (const int64_t key : {20, 10, 30, 5}) ASSERT_TRUE(tree.insert(key, 1));
  std::vector<int64_t> seen;
  tree.range(0, 100, [&](const Key& key, uint64_t) {
    seen.push_back(static_cast<int64_t>(key));
    if (key == Key(10)) {
      EXPECT_TRUE(tree.erase(30));
    }
  });
  EXPECT_EQ(seen, (std::vector<int64_t>{5, 10, 20}));
  count_cases();
}

// Even keys stay; before each step some odd ones come or go, anywhere.
TEST_P(Occtree, ARangeWhoseVisitorUpdatesMissesNoKeyThatStays) {
  constexpr int64_t kKeys = 120;
  std::mt19937_64 random = stream(3);
  for (int64_t key = 0; key < kKeys; key += 2) tree.insert(key, 1);
  for (size_t i = 0; i < share(300); i++) {
    int64_t last = -1, stay = 0;
    tree.range(0, kKeys, [&](const Key& visited, uint64_t) {
      const auto key = static_cast<int64_t>(visited);
      EXPECT_LT(last, key);
      last = key;
      stay += key % 2 == 0;
      for (size_t updates = random() % 8; updates > 0; updates--) {
        const auto other = static_cast<int64_t>(random() % (kKeys / 2)) * 2 + 1;
        if (!tree.erase(other)) tree.insert(other, 1);
      }
    });
    EXPECT_EQ(stay, kKeys / 2);
    count_cases();
  }
  EXPECT_TRUE(tree.check());
}

TEST_P(Occtree, KeysInOrderGiveABalancedTree) {
  const auto keys = static_cast<int64_t>(share(4'000));
  for (int64_t key = 0; key < keys; key++) ASSERT_TRUE(tree.insert(key, 0));
  ASSERT_TRUE(tree.check());
  for (int64_t key = 0; key < keys; key += 2) ASSERT_TRUE(tree.erase(key));
  ASSERT_TRUE(tree.check());
  for (int64_t key = keys - 1; key >= 0; key--) ASSERT_EQ(tree.erase(key), key % 2 == 1);
  ASSERT_TRUE(tree.check());
  EXPECT_EQ(tree.size(), 0);
  count_cases(static_cast<size_t>(keys));
}

TEST_P(Occtree, NoUpdateIsLostWhereManyMeet) {
  for (const unsigned threads : {2U, 4U, 8U}) {
    expect_key_sum_after(threads, 5, scaled(10'000));
    expect_key_sum_after(threads, 50, scaled(10'000));
  }
}

TEST_P(Occtree, NoUpdateIsLostInALargeTree) {
  for (const unsigned threads : {2U, 8U}) expect_key_sum_after(threads, 20'000, share(40'000));
}

// Damage that no thread repairs needs rare interleavings: many short runs, each with a check.
TEST_P(Occtree, IsInOrderWheneverItIsQuiet) {
  for (size_t meeting = 0; meeting < share(300); meeting++) expect_key_sum_after(3, 24, 60);
}

// Keys 0, 3, 6, ... stay; those between come and go, and with them the rotations.
TEST_P(Occtree, AKeyThatStaysIsAlwaysFound) {
  put_keys_that_stay();
  std::mt19937_64 random = stream(2);
  during_updates(share(20'000), [&] {
    const auto key = static_cast<int64_t>(random() % kStaying) * 3;
    EXPECT_EQ(tree.find(key), std::optional(value_of(key, 7)));
    EXPECT_FALSE(tree.contains(key + 2));
    const std::optional<uint64_t> passing = tree.find(key + 1);
    EXPECT_TRUE(!passing || is_value_of(key + 1, *passing));
  });
  EXPECT_TRUE(tree.check());
}

TEST_P(Occtree, ARangeMissesNoKeyThatStays) {
  put_keys_that_stay();
  during_updates(share(20'000), [&] {
    int64_t stays = 0;
    int64_t last = -1;
    tree.range(0, 3 * kStaying, [&](const Key& its_key, uint64_t value) {
      const auto key = static_cast<int64_t>(its_key);
      EXPECT_LT(last, key);
      EXPECT_NE(key % 3, 2);
      EXPECT_TRUE(is_value_of(key, value));
      if (key % 3 == 0) stays++;
      last = key;
    });
    EXPECT_EQ(stays, kStaying);
  });
}

class OcctreeNodes : public testing::Test {
 protected:
  OcctreeNodes() { CountingLock::made = CountingLock::freed = 0; }
  using Tree = occtree<int64_t, uint64_t, EagerDomain, CountingLock>;
};

TEST_F(OcctreeNodes, AnInsertMakesOneOrRevivesOneAndAnEraseMakesNone) {
  {
    EagerDomain domain;
    Tree tree(domain);
    for (const int64_t key : {2, 1, 3}) tree.insert(key, 0);
    EXPECT_EQ(CountingLock::made, 4);  // with the holder of the root
    EXPECT_TRUE(tree.erase(2));        // it has two children, so it stays to route
    EXPECT_EQ(CountingLock::freed, 0);
    EXPECT_FALSE(tree.contains(2));
    EXPECT_TRUE(tree.insert(2, 5));
    EXPECT_EQ(CountingLock::made, 4);
    EXPECT_EQ(tree.find(2), std::optional<uint64_t>(5));
    EXPECT_FALSE(tree.insert(2, 6));
    EXPECT_EQ(tree.find(2), std::optional<uint64_t>(5));
    EXPECT_TRUE(tree.erase(2));
    EXPECT_TRUE(tree.erase(1));  // and with it the routing node
    EXPECT_TRUE(tree.insert(4, 0));
    EXPECT_EQ(CountingLock::made, 5);
    EXPECT_TRUE(tree.check());
  }
  EXPECT_EQ(CountingLock::freed, CountingLock::made);
  count_cases(12);
}

TEST_F(OcctreeNodes, AreAllFreedOnce) {
  {
    EagerDomain domain;
    Tree tree(domain);
    std::mt19937_64 random = stream(0);
    for (size_t i = 0; i < scaled(20'000); i++) {
      const auto key = static_cast<int64_t>(random() % 300);
      random() % 2 == 0 ? tree.insert(key, 0) : tree.erase(key);
      count_cases();
    }
    EXPECT_GT(CountingLock::freed, 0);
    EXPECT_TRUE(tree.check());
  }
  EXPECT_EQ(CountingLock::freed, CountingLock::made);
}

TEST_F(OcctreeNodes, WithoutMemoryNothingChanges) {
  EagerDomain domain;
  Tree tree(domain);
  for (const int64_t key : {20, 10, 30}) tree.insert(key, 0);
  tree.erase(20);
  CountingLock::refuse = true;
  EXPECT_THROW(tree.insert(15, 0), std::bad_alloc);
  EXPECT_FALSE(tree.insert(10, 0));
  EXPECT_TRUE(tree.insert(20, 0));  // needs no memory
  CountingLock::refuse = false;
  EXPECT_EQ(tree.key_sum(), 60);
  EXPECT_TRUE(tree.check());
  EXPECT_TRUE(tree.insert(15, 0));
  count_cases(7);
}

}  // namespace
}  // namespace near_test

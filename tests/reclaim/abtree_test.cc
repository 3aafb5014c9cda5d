// The (a,b)-tree in one thread, against std::map; what nobody holds is freed and poisoned at once.
#include "nearmalloc/reclaim/abtree.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reclaim/eager_domain.h"
#include "support/cases.h"
#include "support/pattern.h"

namespace near_test {
namespace {

using near::reclaim::abtree;

constexpr int64_t value_of(int64_t key) { return key * 31 + 7; }

template <unsigned MostEntries, unsigned LeastEntries>
struct Shape {
  static constexpr unsigned kMost = MostEntries;
  static constexpr unsigned kLeast = LeastEntries;
  template <class Domain>
  using Tree = abtree<int64_t, int64_t, Domain, kMost, kLeast>;
};

template <class ShapeOfTree>
class AbtreeShape : public testing::Test {};
using Shapes = testing::Types<Shape<3, 2>, Shape<4, 2>, Shape<5, 3>, Shape<7, 4>, Shape<8, 2>,
                              Shape<11, 2>, Shape<13, 3>, Shape<16, 8>, Shape<64, 16>>;
TYPED_TEST_SUITE(AbtreeShape, Shapes);

template <class Tree>
void expect_same(const Tree& tree, const std::map<int64_t, int64_t>& model) {
  ASSERT_TRUE(tree.check());
  auto at = model.begin();
  uint64_t sum = 0;
  tree.for_each([&](int64_t key, int64_t value) {
    ASSERT_NE(at, model.end());
    ASSERT_EQ(key, at->first);
    ASSERT_EQ(value, at->second);
    sum += static_cast<uint64_t>(key);
    ++at;
  });
  ASSERT_EQ(at, model.end());
  ASSERT_EQ(tree.size(), model.size());
  ASSERT_EQ(tree.key_sum(), sum);
}

template <class Tree>
void expect_same_range(const Tree& tree, const std::map<int64_t, int64_t>& model, int64_t low,
                       int64_t high) {
  std::vector<std::pair<int64_t, int64_t>> seen;
  const size_t count =
      tree.range(low, high, [&](int64_t key, int64_t value) { seen.emplace_back(key, value); });
  std::vector<std::pair<int64_t, int64_t>> expected;
  for (auto at = model.lower_bound(low); at != model.end() && at->first < high; ++at) {
    expected.emplace_back(*at);
  }
  ASSERT_EQ(seen, expected);
  ASSERT_EQ(count, expected.size());
}

template <class Tree>
void step_both(Tree& tree, std::map<int64_t, int64_t>& model, Random& random, uint64_t range,
               bool grow) {
  const auto key = static_cast<int64_t>(random.below(range)) - static_cast<int64_t>(range / 2);
  const auto value = static_cast<int64_t>(random.next());
  if (random.below(100) < (grow ? 75u : 25u)) {
    ASSERT_EQ(tree.insert(key, value), model.emplace(key, value).second);
  } else {
    ASSERT_EQ(tree.erase(key), model.erase(key) == 1);
  }
  const auto there = model.find(key);
  ASSERT_EQ(tree.contains(key), there != model.end());
  ASSERT_EQ(tree.find(key),
            there == model.end() ? std::nullopt : std::optional<int64_t>(there->second));
}

// Grows and shrinks to nothing several times; after each operation everything is as it should be.
TYPED_TEST(AbtreeShape, AgreesWithTheStandardMapAndIsBalancedAfterEachOperation) {
  EagerDomain domain;
  typename TypeParam::template Tree<EagerDomain> tree(domain);
  std::map<int64_t, int64_t> model;
  Random random(seed());
  const size_t steps = scaled(8000);
  for (size_t i = 0; i < steps; ++i) {
    step_both(tree, model, random, 600, i / 500 % 2 == 0);
    expect_same(tree, model);
    if (this->HasFailure()) return;
    count_cases();
  }
  ASSERT_EQ(domain.unreclaimed(), 0u);
}

TYPED_TEST(AbtreeShape, AnswersRangesAsTheStandardMapDoes) {
  EagerDomain domain;
  typename TypeParam::template Tree<EagerDomain> tree(domain);
  std::map<int64_t, int64_t> model;
  Random random(seed());
  for (size_t i = 0; i < scaled(3000); ++i) {
    step_both(tree, model, random, 1000, i % 1000 < 600);
    const auto low = static_cast<int64_t>(random.below(1200)) - 600;
    expect_same_range(tree, model, low, low + static_cast<int64_t>(random.below(300)) - 5);
    if (this->HasFailure()) return;
    count_cases();
  }
}

TYPED_TEST(AbtreeShape, TakesKeysInOrderAndGivesThemBackInOrder) {
  for (const bool up_first : {true, false}) {
    EagerDomain domain;
    typename TypeParam::template Tree<EagerDomain> tree(domain);
    constexpr int64_t kKeys = 2000;
    for (int64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(tree.insert(up_first ? i : -i, i));
    ASSERT_TRUE(tree.check());
    ASSERT_EQ(tree.size(), size_t{kKeys});
    for (int64_t i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(tree.erase(up_first ? i : i - kKeys + 1));
      ASSERT_TRUE(i % 50 != 0 || tree.check());
      count_cases();
    }
    ASSERT_EQ(tree.size(), 0u);
    ASSERT_TRUE(tree.check());
  }
}

TEST(Abtree, TakesOtherKeysAndValues) {
  struct Pair {
    uint16_t first, second;
    bool operator<(const Pair& other) const {
      return first != other.first ? first < other.first : second < other.second;
    }
  };
  EagerDomain domain;
  abtree<Pair, const char*, EagerDomain> pairs(domain);
  abtree<double, bool, EagerDomain, 4> doubles(domain);
  for (uint16_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(pairs.insert({static_cast<uint16_t>(i % 7), i}, "text"));
    ASSERT_TRUE(doubles.insert(1.0 / (i + 1), i % 2 == 0));
    count_cases();
  }
  EXPECT_EQ(pairs.find({3, 3}).value(), std::string("text"));
  EXPECT_FALSE(pairs.contains({3, 4}));
  EXPECT_EQ(doubles.find(1.0), true);
  EXPECT_EQ(doubles.find(0.5), false);
  EXPECT_EQ(doubles.find(0.75), std::nullopt);
  EXPECT_TRUE(pairs.check() && doubles.check());
  EXPECT_EQ(pairs.size(), 300u);
}

TEST(Abtree, AVisitorMayUseTheTreeWithTheSameGuard) {
  EagerDomain domain;
  abtree<int64_t, int64_t, EagerDomain, 4> tree(domain);
  for (int64_t key = 0; key < 200; ++key) tree.insert(key, value_of(key));
  auto guard = domain.pin();
  int64_t next = 0;
  tree.range(guard, 0, 200, [&](int64_t key, int64_t value) {
    EXPECT_EQ(key, next++);
    EXPECT_EQ(value, value_of(key));
    EXPECT_TRUE(tree.erase(guard, key));
    count_cases();
  });
  EXPECT_EQ(next, 200);
  EXPECT_EQ(tree.size(), 0u);
}

}  // namespace
}  // namespace near_test

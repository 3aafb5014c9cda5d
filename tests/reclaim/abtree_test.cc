// The (a,b)-tree in one thread, against std::map; unheld retired nodes are poisoned and freed.
#include "nearmalloc/reclaim/abtree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reclaim/any_set.h"
#include "reclaim/eager_domain.h"
#include "support/cases.h"
#include "support/pattern.h"

namespace near_test {
namespace {

using near::reclaim::abtree;

class TreeTrial : public Trial {
 public:
  virtual size_t unreclaimed() = 0;
};

struct Shape {
  const char* name;
  std::unique_ptr<TreeTrial> (*make)();
};

template <unsigned B, unsigned A>
class ShapeTrial final
    : public TrialOf<abtree<Key, uint64_t, EagerDomain, B, A>, EagerDomain, TreeTrial> {
 public:
  size_t unreclaimed() override { return this->domain_.unreclaimed(); }
};

template <unsigned B, unsigned A>
std::unique_ptr<TreeTrial> make_trial() {
  return std::make_unique<ShapeTrial<B, A>>();
}

class AbtreeShape : public testing::TestWithParam<Shape> {};
constexpr Shape kShapes[] = {
    {"B3A2", make_trial<3, 2>},     {"B4A2", make_trial<4, 2>}, {"B5A3", make_trial<5, 3>},
    {"B7A4", make_trial<7, 4>},     {"B8A2", make_trial<8, 2>}, {"B16A8", make_trial<16, 8>},
    {"B64A16", make_trial<64, 16>},
};
std::string name_of(const testing::TestParamInfo<Shape>& row) { return row.param.name; }

INSTANTIATE_TEST_SUITE_P(Shapes, AbtreeShape, testing::ValuesIn(kShapes), name_of);

using Model = std::map<int64_t, uint64_t>;

void expect_same(const AnySet& tree, const Model& model) {
  ASSERT_TRUE(tree.check());
  auto at = model.begin();
  uint64_t sum = 0;
  tree.for_each([&](const Key& key, uint64_t value) {
    ASSERT_NE(at, model.end());
    ASSERT_EQ(static_cast<int64_t>(key), at->first);
    ASSERT_EQ(value, at->second);
    sum += static_cast<uint64_t>(key);
    ++at;
  });
  ASSERT_EQ(at, model.end());
  ASSERT_EQ(tree.size(), model.size());
  ASSERT_EQ(tree.key_sum(), sum);
}

void expect_same_range(const AnySet& tree, const Model& model, int64_t low, int64_t high) {
  std::vector<std::pair<int64_t, uint64_t>> seen;
  const size_t count = tree.range(low, high, [&](const Key& key, uint64_t value) {
    seen.emplace_back(static_cast<int64_t>(key), value);
  });
  std::vector<std::pair<int64_t, uint64_t>> expected;
  for (auto at = model.lower_bound(low); at != model.end() && at->first < high; ++at) {
    expected.emplace_back(*at);
  }
  ASSERT_EQ(seen, expected);
  ASSERT_EQ(count, expected.size());
}

void step_both(AnySet& tree, Model& model, Random& random, uint64_t range, bool grow) {
  const auto key = static_cast<int64_t>(random.below(range)) - static_cast<int64_t>(range / 2);
  const uint64_t value = random.next();
  if (random.below(100) < (grow ? 75u : 25u)) {
    ASSERT_EQ(tree.insert(key, value), model.emplace(key, value).second);
  } else {
    ASSERT_EQ(tree.erase(key), model.erase(key) == 1);
  }
  const auto there = model.find(key);
  ASSERT_EQ(tree.contains(key), there != model.end());
  ASSERT_EQ(tree.find(key), there == model.end() ? std::nullopt : std::optional(there->second));
}

// Grows and shrinks to nothing several times; checks the whole tree after each operation.
TEST_P(AbtreeShape, AgreesWithTheStandardMapAndIsBalancedAfterEachOperation) {
  const std::unique_ptr<TreeTrial> trial = GetParam().make();
  AnySet& tree = trial->set();
  Model model;
  Random random(seed());
  const size_t steps = scaled(8000);
  for (size_t i = 0; i < steps; ++i) {
    step_both(tree, model, random, 600, i / 500 % 2 == 0);
    expect_same(tree, model);
    if (HasFailure()) return;
    count_cases();
  }
  ASSERT_EQ(trial->unreclaimed(), 0u);
}

TEST_P(AbtreeShape, AnswersRangesAsTheStandardMapDoes) {
  const std::unique_ptr<TreeTrial> trial = GetParam().make();
  AnySet& tree = trial->set();
  Model model;
  Random random(seed());
  for (size_t i = 0; i < scaled(3000); ++i) {
    step_both(tree, model, random, 1000, i % 1000 < 600);
    const auto low = static_cast<int64_t>(random.below(1200)) - 600;
    expect_same_range(tree, model, low, low + static_cast<int64_t>(random.below(300)) - 5);
    if (HasFailure()) return;
    count_cases();
  }
}

TEST_P(AbtreeShape, TakesKeysInOrderAndGivesThemBackInOrder) {
  for (const bool up_first : {true, false}) {
    const std::unique_ptr<TreeTrial> trial = GetParam().make();
    AnySet& tree = trial->set();
    const auto keys = std::max<int64_t>(static_cast<int64_t>(scaled(2000)), 500);
    for (int64_t i = 0; i < keys; ++i) ASSERT_TRUE(tree.insert(up_first ? i : -i, 0));
    ASSERT_TRUE(tree.check());
    ASSERT_EQ(tree.size(), static_cast<size_t>(keys));
    for (int64_t i = 0; i < keys; ++i) {
      ASSERT_TRUE(tree.erase(up_first ? i : i - keys + 1));
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
  abtree<int64_t, uint64_t, EagerDomain, 4> tree(domain);
  for (int64_t key = 0; key < 200; ++key) tree.insert(key, stamp(key));
  auto guard = domain.pin();
  int64_t next = 0;
  tree.range(guard, 0, 200, [&](int64_t key, uint64_t value) {
    EXPECT_EQ(key, next++);
    EXPECT_EQ(value, stamp(key));
    EXPECT_TRUE(tree.erase(guard, key));
    count_cases();
  });
  EXPECT_EQ(next, 200);
  EXPECT_EQ(tree.size(), 0u);
}

}  // namespace
}  // namespace near_test

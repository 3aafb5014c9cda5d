// The (a,b)-tree in many threads, which are stopped anywhere, under every scheme that frees.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nearmalloc/reclaim/abtree.hpp"
#include "nearmalloc/reclaim/domain.hpp"
#include "reclaim/any_set.h"
#include "reclaim/busy_domain.h"
#include "reclaim/eager_domain.h"
#include "reclaim/interrupter.h"
#include "support/cases.h"
#include "support/parallel.h"
#include "support/pattern.h"

namespace near_test {
namespace {

namespace reclaim = near::reclaim;
using reclaim::abtree;

class BusyTrial : public Trial {
 public:
  virtual size_t unreclaimed() = 0;
};

template <class Domain, unsigned B, unsigned A>
class BusyTrialOf final : public TrialOf<abtree<Key, uint64_t, Domain, B, A>, Domain, BusyTrial> {
 public:
  size_t unreclaimed() override { return this->domain_.unreclaimed(); }
};

template <class Domain, unsigned B, unsigned A = 2>
std::unique_ptr<BusyTrial> make_trial() {
  return std::make_unique<BusyTrialOf<Domain, B, A>>();
}

using MakeTrial = std::unique_ptr<BusyTrial> (*)();

struct Row {
  const char* domain;
  MakeTrial small;  // splits and joins all the time
  MakeTrial usual;
  MakeTrial narrow;  // the least node is half of the largest
};

template <class Domain>
constexpr Row row(const char* name) {
  return {name, make_trial<Domain, 3>, make_trial<Domain, 11>, make_trial<Domain, 8, 4>};
}

class AbtreeThreads : public testing::TestWithParam<Row> {};
constexpr Row kRows[] = {
    row<EagerDomain>("eager"),
    row<BusyDomain<reclaim::hazard_pointers>>("hazard_pointers"),
    row<BusyDomain<reclaim::ping_epochs>>("ping_epochs"),
    row<BusyDomain<reclaim::ibr>>("ibr"),
    row<BusyDomain<reclaim::hyaline>>("hyaline"),
    row<BusyDomain<reclaim::debra<>>>("debra"),
    row<BusyDomain<reclaim::checkpoints>>("checkpoints"),
    row<BusyDomain<reclaim::debra<reclaim::announce::after_free>>>("debra_after_free"),
    row<BusyDomain<reclaim::token<>>>("token"),
};
std::string domain_of(const testing::TestParamInfo<Row>& row) { return row.param.domain; }

INSTANTIATE_TEST_SUITE_P(Domains, AbtreeThreads, testing::ValuesIn(kRows), domain_of);

struct Load {
  size_t threads;
  int64_t keys;
  size_t operations;  // of each thread
};

// The balance of the changes that one thread made.
struct Balance {
  uint64_t key_sum = 0;
  int64_t entries = 0;
};

void change_at_random(AnySet& tree, const Load& load, uint64_t number, Balance& balance) {
  const std::unique_ptr<AnyClient> handle = tree.attach(false);
  Random random(seed() + number);
  for (size_t i = 0; i < load.operations; ++i) {
    const auto key = static_cast<int64_t>(random.below(static_cast<uint64_t>(load.keys)));
    const uint64_t what = random.below(100);
    if (what < 45) {
      if (!handle->insert(key, stamp(key))) continue;
      balance.key_sum += static_cast<uint64_t>(key);
      ++balance.entries;
    } else if (what < 90) {
      if (!handle->erase(key)) continue;
      balance.key_sum -= static_cast<uint64_t>(key);
      --balance.entries;
    } else if (const auto value = handle->find(key)) {
      ASSERT_EQ(*value, stamp(key));
    }
  }
}

void stress(MakeTrial make, const Load& load) {
  const std::unique_ptr<BusyTrial> trial = make();
  AnySet& tree = trial->set();
  Interrupter interrupter;
  std::vector<Balance> balances(load.threads);
  run_threads(load.threads, [&](size_t i) {
    const Interrupter::Watched watched(interrupter);
    change_at_random(tree, load, i, balances[i]);
  });
  Balance total;
  for (const Balance& each : balances) {
    total.key_sum += each.key_sum;
    total.entries += each.entries;
  }
  ASSERT_TRUE(tree.check());
  ASSERT_EQ(tree.key_sum(), total.key_sum);
  ASSERT_EQ(tree.size(), static_cast<size_t>(total.entries));
  tree.for_each(
      [](const Key& key, uint64_t value) { ASSERT_EQ(value, stamp(static_cast<int64_t>(key))); });
  ASSERT_EQ(trial->unreclaimed(), 0u);
  count_cases(load.threads * load.operations);
}

TEST_P(AbtreeThreads, KeepTheSumOfKeysAndTheBalanceOfTheTree) {
  for (const size_t threads : {2, 8}) {
    for (const int64_t keys : {4, 2000}) {
      const Load load = {threads, keys, scaled(8'000 / threads)};
      SCOPED_TRACE(testing::Message() << threads << " threads, " << keys << " keys");
      for (const MakeTrial make : {GetParam().usual, GetParam().small, GetParam().narrow}) {
        stress(make, load);
        if (HasFailure()) return;
      }
    }
  }
}

// Keys 0 mod 4 are always there, 1 mod 4 never, the others come and go.
constexpr bool is_constant(int64_t key) { return key % 4 == 0; }
constexpr bool is_absent(int64_t key) { return key % 4 == 1; }

void churn(AnySet& tree, int64_t keys, const std::atomic<bool>& done, uint64_t number) {
  Random random(seed() + number);
  while (!done.load(std::memory_order_relaxed)) {
    const auto key = static_cast<int64_t>(random.below(static_cast<uint64_t>(keys)));
    if (is_constant(key) || is_absent(key)) continue;
    if (random.below(2) == 0) {
      tree.insert(key, stamp(key));
    } else {
      tree.erase(key);
    }
  }
}

void expect_range_holds(const AnySet& tree, int64_t low, int64_t high) {
  int64_t next_constant = (low + 3) / 4 * 4;
  int64_t last = low - 1;
  tree.range(low, high, [&](const Key& its_key, uint64_t value) {
    const auto key = static_cast<int64_t>(its_key);
    ASSERT_LT(last, key);
    last = key;
    ASSERT_EQ(value, stamp(key));
    ASSERT_FALSE(is_absent(key)) << key;
    ASSERT_LE(key, is_constant(key) ? next_constant : next_constant - 1) << "one was missed";
    if (is_constant(key)) next_constant += 4;
  });
  ASSERT_LT(last, high);
  ASSERT_GE(next_constant, high) << "one was missed at the end";
}

void ranges_under_churn(MakeTrial make, int64_t keys, size_t ranges) {
  const std::unique_ptr<BusyTrial> trial = make();
  AnySet& tree = trial->set();
  for (int64_t key = 0; key < keys; key += 4) ASSERT_TRUE(tree.insert(key, stamp(key)));
  std::atomic<bool> done{false};
  Interrupter interrupter;
  Threads threads(3, [&](uint64_t i) {
    const Interrupter::Watched watched(interrupter);
    churn(tree, keys, done, i);
  });
  Random random(seed());
  for (size_t i = 0; i < ranges && !testing::Test::HasFailure(); ++i) {
    const auto low = static_cast<int64_t>(random.below(static_cast<uint64_t>(keys)));
    const auto width = static_cast<int64_t>(random.below(static_cast<uint64_t>(keys - low)));
    expect_range_holds(tree, low, low + width);
    EXPECT_TRUE(tree.contains(low / 4 * 4));
    EXPECT_FALSE(tree.contains(low / 4 * 4 + 1));
    count_cases();
  }
  done = true;
  threads.join();
  ASSERT_TRUE(tree.check());
}

TEST_P(AbtreeThreads, ARangeMissesNoKeyThatStaysAndShowsNoneThatIsAbsent) {
  ranges_under_churn(GetParam().small, 200, scaled(10'000));
  ranges_under_churn(GetParam().usual, 2000, scaled(2000));
}

// Each thread has its own keys, between those of the others: it finds exactly what it inserted.
TEST_P(AbtreeThreads, EachSeesItsOwnChanges) {
  const std::unique_ptr<BusyTrial> trial = GetParam().small();
  AnySet& tree = trial->set();
  constexpr int64_t kThreads = 4;
  std::atomic<size_t> entries{0};
  run_threads(kThreads, [&](int64_t number) {
    std::map<int64_t, int64_t> model;
    Random random(seed() + static_cast<uint64_t>(number));
    for (size_t i = 0; i < scaled(20'000); ++i) {
      const int64_t key = static_cast<int64_t>(random.below(300)) * kThreads + number;
      if (random.below(2) == 0) {
        ASSERT_EQ(tree.insert(key, stamp(key)), model.emplace(key, 0).second);
      } else {
        ASSERT_EQ(tree.erase(key), model.erase(key) == 1);
      }
      ASSERT_EQ(tree.contains(key), model.contains(key));
      count_cases();
    }
    entries += model.size();
  });
  ASSERT_TRUE(tree.check());
  ASSERT_EQ(tree.size(), entries.load());
}

}  // namespace
}  // namespace near_test

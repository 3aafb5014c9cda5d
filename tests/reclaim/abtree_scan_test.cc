// abtree::scan is linearizable, and the bulk erasure of a range, under every kind of guard.
//
// Invariant: each writer toggles its own keys in an order that the test knows, so a set of its keys
// says how many toggles came before. A scan lies between what a writer had done when it began and
// what it had begun when it ended; and of any two scans, by any threads, one saw no writer's toggle
// that the other did not.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <vector>

#include "nearmalloc/reclaim/abtree.hpp"
#include "nearmalloc/reclaim/list.hpp"
#include "nearmalloc/reclaim/occtree.hpp"
#include "reclaim/busy_domain.h"
#include "reclaim/eager_domain.h"
#include "reclaim/interrupter.h"
#include "reclaim/reporting_domain.h"
#include "support/cases.h"
#include "support/parallel.h"
#include "support/pattern.h"

namespace near_test {
namespace {

namespace reclaim = near::reclaim;

struct BusyReporting : ReportingDomain {
  BusyReporting() : ReportingDomain({.batch_size = 8}) {}
};

constexpr size_t kWriters = 2;
constexpr size_t kScanners = 2;
constexpr int64_t kKeys = 24;  // of each writer

// Writer w owns the keys k * kWriters + w. Its toggle i is that of k = i * 7 % kKeys, so that
// neighbours in time are in different leaves.
int64_t key_of(size_t writer, size_t toggle) {
  const auto k = static_cast<int64_t>(toggle * 7 % kKeys);
  return k * static_cast<int64_t>(kWriters) + static_cast<int64_t>(writer);
}

using Keys = std::map<int64_t, uint64_t>;  // with the toggle that inserted each
using Counts = std::array<size_t, kWriters>;
constexpr size_t kCycle = 2 * kKeys;  // toggles until all keys are gone again

// How many toggles of a writer, from `least` to `most`, lead to these keys. SIZE_MAX: none do.
// Without keys, it may be the end of any cycle, and this is the first.
size_t toggles_before(const Keys& seen, size_t writer, size_t least, size_t most) {
  if (!seen.empty()) {
    const size_t cycle = seen.begin()->second / kCycle * kCycle;
    least = std::max(least, cycle);
    most = std::min(most, cycle + kCycle - 1);
  }
  Keys keys;
  for (size_t i = least - least % kCycle; i <= most; i++) {
    if (i >= least && keys == seen) return i;
    const int64_t key = key_of(writer, i);
    if (keys.erase(key) == 0) keys.emplace(key, i);
  }
  return SIZE_MAX;
}

template <class Domain>
class AbtreeScan : public testing::Test {
 protected:
  using Tree = reclaim::abtree<int64_t, uint64_t, Domain, 3, 2>;

  void write(size_t writer) {
    for (size_t i = 0; !done_.load(std::memory_order_relaxed); i++) {
      const int64_t key = key_of(writer, i);
      begun_[writer] = i + 1;
      if (i % kCycle < kCycle / 2) {
        EXPECT_TRUE(tree_.insert(key, i));
      } else {
        EXPECT_TRUE(tree_.erase(key));
      }
      ended_[writer] = i + 1;
    }
  }

  // Until so many scans have seen keys of all writers.
  void scan(std::vector<Counts>& results, size_t scans) {
    while (results.size() < scans && !this->HasFailure()) {
      Counts least;
      for (size_t writer = 0; writer < kWriters; writer++) least[writer] = ended_[writer];
      std::array<Keys, kWriters> seen;
      int64_t last = -1;
      const size_t visited = tree_.scan(0, kKeys * kWriters, [&](int64_t key, uint64_t toggle) {
        EXPECT_LT(last, key);
        last = key;
        seen[static_cast<size_t>(key) % kWriters].emplace(key, toggle);
      });
      EXPECT_EQ(visited, seen[0].size() + seen[1].size());
      Counts counts;
      for (size_t writer = 0; writer < kWriters; writer++) {
        counts[writer] = toggles_before(seen[writer], writer, least[writer], begun_[writer]);
        EXPECT_NE(counts[writer], SIZE_MAX) << "no moment of the scan has these keys";
      }
      if (!seen[0].empty() && !seen[1].empty()) results.push_back(counts);
      count_cases();
    }
  }

  Domain domain_;
  Tree tree_{domain_};
  std::array<std::atomic<size_t>, kWriters> begun_{};
  std::array<std::atomic<size_t>, kWriters> ended_{};
  std::atomic<bool> done_{false};
};

using Domains =
    testing::Types<EagerDomain, BusyDomain<reclaim::hazard_pointers>,
                   BusyDomain<reclaim::ping_epochs>, BusyDomain<reclaim::ibr>,
                   BusyDomain<reclaim::hyaline>, BusyDomain<reclaim::debra<>>,
                   BusyDomain<reclaim::token<>>, BusyDomain<reclaim::checkpoints>, BusyReporting>;
TYPED_TEST_SUITE(AbtreeScan, Domains);

TYPED_TEST(AbtreeScan, SeesOneMomentOfTheTree) {
  Interrupter interrupter;
  std::array<std::vector<Counts>, kScanners> results;
  {
    Threads writers(kWriters, [&](size_t writer) {
      const Interrupter::Watched watched(interrupter);
      this->write(writer);
    });
    run_threads(kScanners, [&](size_t scanner) {
      const Interrupter::Watched watched(interrupter);
      this->scan(results[scanner], scaled(4000));
    });
    this->done_ = true;
  }
  EXPECT_TRUE(this->tree_.check());
  std::vector<Counts> all;
  for (const auto& each : results) all.insert(all.end(), each.begin(), each.end());
  std::sort(all.begin(), all.end());
  for (size_t i = 1; i < all.size(); i++) {
    ASSERT_LE(all[i - 1][1], all[i][1]) << "two scans saw two changes in different orders";
  }
}

// Threads erase overlapping ranges while others insert: each key that was inserted is erased once,
// and at the end what nobody inserts again is gone.
TYPED_TEST(AbtreeScan, ARangeIsErasedOnceByAll) {
  constexpr int64_t kMost = 400;
  std::atomic<size_t> inserted{0};
  std::atomic<size_t> erased{0};
  run_threads(4, [&](size_t number) {
    Random random(seed() + number);
    for (size_t i = 0; i < scaled(400); i++) {
      const auto low = static_cast<int64_t>(random.below(kMost));
      if (number % 2 == 0) {
        for (int64_t key = low; key < low + 20; key++) {
          inserted += this->tree_.insert(key, 1) ? 1 : 0;
        }
      } else {
        erased += this->tree_.erase_range(low, low + static_cast<int64_t>(random.below(60)));
      }
      count_cases();
    }
  });
  EXPECT_TRUE(this->tree_.check());
  EXPECT_EQ(this->tree_.size(), inserted - erased);
  const size_t left = this->tree_.size();
  const size_t inside = this->tree_.range(100, 300, [](int64_t, uint64_t) {});
  EXPECT_EQ(this->tree_.erase_range(300, 100), 0u);
  EXPECT_EQ(this->tree_.erase_range(100, 300), inside);
  EXPECT_EQ(this->tree_.size(), left - inside);
  EXPECT_EQ(this->tree_.range(100, 300, [](int64_t, uint64_t) {}), 0u);
  EXPECT_TRUE(this->tree_.check());
}

template <class Structure>
void expect_erases_its_range() {
  typename Structure::domain domain;
  typename Structure::template set<typename Structure::domain> set(domain);
  for (int64_t key = 0; key < 200; key++) set.insert(key, 1);
  EXPECT_EQ(set.erase_range(50, 50), 0u);
  EXPECT_EQ(set.erase_range(50, 150), 100u);
  EXPECT_EQ(set.erase_range(40, 60), 10u);
  EXPECT_EQ(set.size(), 90u);
  EXPECT_FALSE(set.contains(40));
  EXPECT_FALSE(set.contains(149));
  EXPECT_TRUE(set.contains(39));
  EXPECT_TRUE(set.contains(150));
  EXPECT_TRUE(set.check());
  count_cases();
}

template <class Scheme>
struct ListIn {
  using domain = reclaim::domain<Scheme>;
  template <class Domain>
  using set = reclaim::list_set<int64_t, uint64_t, Domain>;
};
template <class Scheme>
struct OcctreeIn {
  using domain = reclaim::domain<Scheme>;
  template <class Domain>
  using set = reclaim::occtree<int64_t, uint64_t, Domain>;
};

TEST(EraseRange, IsThatOfTheListAndTheAvlTree) {
  expect_erases_its_range<ListIn<reclaim::debra<>>>();
  expect_erases_its_range<ListIn<reclaim::hazard_pointers>>();
  expect_erases_its_range<OcctreeIn<reclaim::debra<>>>();
  expect_erases_its_range<OcctreeIn<reclaim::hazard_pointers>>();
}

}  // namespace
}  // namespace near_test

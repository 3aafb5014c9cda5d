// The lock-free structures with one thread that simulates several, preempted in the middle of
// operations: what would be a rare coincidence of real threads happens in every run.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "checked_heap.h"
#include "nearmalloc/reclaim/hash_map.hpp"
#include "nearmalloc/reclaim/list.hpp"
#include "preempting_domain.h"
#include "set_checks.h"
#include "support/cases.h"

namespace near_test {
namespace {

template <class Set, class Domain>
class Stage {
 public:
  // Preempted once in `rarity` places: a comparison, or the moments before and after a hold.
  Stage(int64_t keys, unsigned rarity, uint64_t seed)
      : set_(domain_),
        keys_(keys),
        rarity_(rarity),
        random_(seed),
        known_(static_cast<size_t>(keys)) {
    on_stage_ = this;
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() { Key::set_hook(nullptr); }

  // Returns how often it was preempted.
  size_t play(size_t operations) {
    for (int64_t key = 0; key < keys_; key += 8) {
      if (set_.insert(Key(key), stamp(key))) tally_.inserted(key);
      known_[static_cast<size_t>(key)].present = 1;
    }
    domain_.set_preemption([this] { others_may_run(); });
    Key::set_hook([] { on_stage_->others_may_run(); });
    for (size_t i = 0; i < operations && tally_.fault == nullptr; ++i) operate();
    Key::set_hook(nullptr);
    domain_.set_preemption(nullptr);
    expect_sums(set_, {tally_});
    EXPECT_EQ(domain_.retired(), erased_);
    EXPECT_EQ(domain_.unreclaimed(), 0u);
    return preemptions_;
  }

 private:
  // Others run inside an operation, and others again inside theirs; three deep at most.
  void others_may_run() {
    if (depth_ == 3 || random_() % (rarity_ << depth_) != 0) return;
    ++preemptions_;
    ++depth_;
    for (uint64_t left = random_() % 4; left > 0; --left) operate();
    --depth_;
  }

  // What is known about a key. While an update of it is under way, nothing is known.
  struct Known {
    int present = 0;
    unsigned under_way = 0;
    size_t begun = 0;  // updates
  };

  // Runs one operation. False: its result is wrong although no other operation updated the key.
  template <class Operation>
  bool agrees(int64_t key, bool is_update, bool inverted, const Operation& operation) {
    Known& known = known_[static_cast<size_t>(key)];
    const int present = known.present;
    const bool alone = known.under_way == 0;
    known.under_way += is_update ? 1 : 0;
    const size_t begun = known.begun += is_update ? 1 : 0;
    const bool result = operation();
    known.under_way -= is_update ? 1 : 0;
    return !alone || known.begun != begun || result == ((present == 1) != inverted);
  }

  void operate() {
    const auto key = static_cast<int64_t>(random_() % static_cast<uint64_t>(keys_));
    const uint64_t dice = random_();
    int& present = known_[static_cast<size_t>(key)].present;
    bool good = true;
    if (dice % 8 == 0) {
      good = agrees(key, false, false, [&] { return set_.contains(Key(key)); });
      check_find(set_, key, tally_);
    } else if (dice % 8 == 1) {
      good = agrees(key, false, false, [&] { return range_has(key); });
      check_range(set_, key, std::min(key + 6, keys_), tally_);
    } else if (is_constant(key) || is_absent(key)) {
      check_find(set_, key, tally_);
    } else if (dice % 2 == 0) {
      good = agrees(key, true, true, [&] {
        const bool inserted = set_.insert(Key(key), stamp(key));
        if (inserted) tally_.inserted(key), ++present;
        return inserted;
      });
    } else {
      good = agrees(key, true, false, [&] {
        const bool erased = set_.erase(Key(key));
        if (erased) tally_.erased(key), --present, ++erased_;
        return erased;
      });
    }
    tally_.expect(good, "an operation is wrong about a key that nobody else updated");
  }

  bool range_has(int64_t key) {
    if constexpr (HasRange<Set>) {
      bool has = false;
      set_.range(key - 4, key + 1,
                 [&](const Key& each, uint64_t) { has = static_cast<int64_t>(each) == key; });
      return has;
    } else {
      return set_.find(Key(key)).has_value();
    }
  }

  static inline Stage* on_stage_ = nullptr;
  Domain domain_;
  Set set_;
  const int64_t keys_;
  const unsigned rarity_;
  std::mt19937_64 random_;
  Tally tally_;
  std::vector<Known> known_;
  size_t erased_ = 0;
  unsigned depth_ = 0;
  size_t preemptions_ = 0;
};

template <template <class> class Structure, class Scheme>
void play_all(std::initializer_list<int64_t> key_ranges, unsigned rarity) {
  using Domain = PreemptingDomain<Scheme>;
  constexpr size_t kOperations = 300;
  size_t preemptions = 0;
  for (const int64_t keys : key_ranges) {
    SCOPED_TRACE(keys);
    for (size_t turn = 0; turn < scaled(60); ++turn) {
      preemptions +=
          Stage<Structure<Domain>, Domain>(keys, rarity, seed() + turn).play(kOperations);
      if (has_checked_heap()) drain_quarantine();
      count_cases();
    }
  }
  EXPECT_GT(preemptions, key_ranges.size() * scaled(60) * kOperations / 20);
}

template <class Domain>
using List = near::reclaim::list_set<Key, uint64_t, Domain>;

template <class Domain>
struct Map : near::reclaim::hash_map<Key, uint64_t, Domain> {
  explicit Map(Domain& domain) : near::reclaim::hash_map<Key, uint64_t, Domain>(domain, 1) {}
};

TEST(Preemption, ListSetUnderHazards) { play_all<List, Hazards>({4, 8, 16, 40}, 24); }
TEST(Preemption, ListSetUnderEpochs) { play_all<List, Epochs>({4, 8, 16, 40}, 8); }
TEST(Preemption, HashMapUnderHazards) { play_all<Map, Hazards>({4, 16, 100, 1000}, 3); }
TEST(Preemption, HashMapUnderEpochs) { play_all<Map, Epochs>({4, 16, 100, 1000}, 2); }

}  // namespace
}  // namespace near_test

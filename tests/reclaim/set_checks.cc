// See set_checks.h.
#include "set_checks.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>

#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

// Keys of a range: some leaves of a tree, and few enough that there are many ranges in little time.
constexpr int64_t kWidest = 128;

void random_operations(AnyClient& client, const SetLoad& load, uint64_t seed, Tally& tally) {
  std::mt19937_64 random(seed);
  Key::seed_jitter(static_cast<uint32_t>(seed) | 1);
  for (size_t i = 0; i < load.operations && tally.fault == nullptr; ++i) {
    const uint64_t drawn = random();
    const auto key = static_cast<int64_t>(drawn % static_cast<uint64_t>(load.keys));
    const uint64_t dice = drawn >> 40;
    if (load.ranges && dice % 16 == 0) {
      check_range(client, key, std::min(key + std::min(load.keys / 4, kWidest), load.keys), tally);
    } else if (is_constant(key) || is_absent(key) || dice % 100 < load.finds) {
      check_find(client, key, tally);
    } else if ((dice >> 8) % 2 == 0) {
      if (client.insert(key, stamp(key))) tally.inserted(key);
    } else {
      if (client.erase(key)) tally.erased(key);
    }
  }
}

// Threads pin in one of three ways.
void operate_in_thread(AnySet& set, unsigned number, const SetLoad& load, Tally& tally) {
  const std::unique_ptr<AnyClient> handle = number % 3 != 0 ? set.attach(number % 3 == 2) : nullptr;
  random_operations(handle != nullptr ? *handle : set, load, seed() + number, tally);
}

// Effect: the set contains the constant keys.
Tally insert_constants(AnySet& set, int64_t keys) {
  Tally tally;
  for (int64_t key = 0; key < keys; key += 8) {
    EXPECT_TRUE(set.insert(key, stamp(key)));
    tally.inserted(key);
  }
  return tally;
}

using Model = std::map<Key, uint64_t>;

void expect_same_range(AnyClient& client, const Model& model, const Key& lo, const Key& hi) {
  Model seen;
  client.range(lo, hi, [&](const Key& each, uint64_t value) { seen.emplace(each, value); });
  const Model expected(model.lower_bound(lo), model.lower_bound(hi));
  ASSERT_EQ(seen, expected);
}

}  // namespace

void check_concurrent(AnySet& set, const SetLoad& load, unsigned rounds) {
  std::vector<Tally> tallies(load.threads * rounds + 1);
  tallies.back() = insert_constants(set, load.keys);
  SetLoad possible = load;
  possible.ranges = load.ranges && set.has_range();
  for (unsigned round = 0; round < rounds; ++round) {
    run_threads(load.threads, [&](unsigned number) {
      const unsigned place = round * load.threads + number;
      operate_in_thread(set, place, possible, tallies[place]);
    });
  }
  expect_sums(set, tallies);
  count_cases();
}

void check_sequential(AnySet& set, const SetLoad& load, size_t operations_between_checks) {
  const std::unique_ptr<AnyClient> client = set.attach(false);
  Model model;
  std::mt19937_64 random(seed());
  for (size_t i = 0; i < load.operations; ++i) {
    const Key key = static_cast<int64_t>(random() % static_cast<uint64_t>(load.keys));
    const auto found = model.find(key);
    ASSERT_EQ(client->contains(key), found != model.end());
    ASSERT_EQ(client->find(key),
              found != model.end() ? std::optional(found->second) : std::nullopt);
    if (random() % 2 == 0) {
      ASSERT_EQ(client->insert(key, stamp(key)), model.emplace(key, stamp(key)).second);
    } else {
      ASSERT_EQ(client->erase(key), model.erase(key) == 1);
    }
    ASSERT_TRUE(i % operations_between_checks != 0 || set.check());
    if (set.has_range()) {
      expect_same_range(*client, model, key, static_cast<int64_t>(key) + 16);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  ASSERT_TRUE(set.check());
  ASSERT_EQ(set.size(), model.size());
  Model copy;
  set.for_each([&](const Key& key, uint64_t value) { copy.emplace(key, value); });
  ASSERT_EQ(copy, model);
  count_cases();
}

}  // namespace near_test

// Checks for every set and map of the reclamation library, typed on the structure. Its keys are
// near_test::Key, its values uint64_t.
//
// Invariant: a value is the stamp of its key, so that a node that is reused or freed too early
// shows. What threads inserted less what they erased is what is there at the end, by number and by
// sum of keys. A key that is never erased is always found, one that is never inserted never.
// Who may touch it: a Client belongs to the thread that made it; the rest is the test's.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "jittery_key.h"
#include "support/cases.h"

namespace near_test {

struct SetLoad {
  unsigned threads = 4;
  int64_t keys = 64;         // keys are [0, keys)
  size_t operations = 2000;  // of each thread
  unsigned finds = 0;        // percent; the rest inserts and erases alike
  bool ranges = false;       // one operation in 16 is a range query, where the structure has them
};

inline uint64_t stamp(const Key& key) {
  return (static_cast<uint64_t>(key) + 1) * 0x9E3779B97F4A7C15u;
}

// A structure, or a client of one.
template <class T>
concept HasRange = requires(T& any, Key key) { any.range(key, key, [](const Key&, uint64_t) {}); };

// A thread's way to a set: the ways to pin differ between threads.
template <class Set, class Domain>
class Client {
 public:
  Client(Set& set, Domain& domain, unsigned number) : set_(set) {
    if (number % 3 != 0) handle_.emplace(domain.attach());
    nested_ = number % 3 == 2;
  }

  bool insert(const Key& key) {
    if (!handle_) return set_.insert(key, stamp(key));
    return pinned([&](auto& guard) { return set_.insert(guard, key, stamp(key)); });
  }
  bool erase(const Key& key) {
    if (!handle_) return set_.erase(key);
    return pinned([&](auto& guard) { return set_.erase(guard, key); });
  }
  std::optional<uint64_t> find(const Key& key) {
    if (!handle_) return set_.find(key);
    return pinned([&](auto& guard) { return set_.find(guard, key); });
  }
  bool contains(const Key& key) {
    if (!handle_) return set_.contains(key);
    return pinned([&](auto& guard) { return set_.contains(guard, key); });
  }
  template <class F>
    requires HasRange<Set>
  size_t range(const Key& lo, const Key& hi, F f) {
    if (!handle_) return set_.range(lo, hi, f);
    return pinned([&](auto& guard) { return set_.range(guard, lo, hi, f); });
  }

 private:
  template <class Operation>
  auto pinned(Operation operation) {
    auto guard = handle_->pin();
    if (!nested_) return operation(guard);
    guard.repin();
    auto inner = handle_->pin();
    return operation(inner);
  }

  Set& set_;
  std::optional<typename Domain::handle_type> handle_;
  bool nested_;
};

// What one thread did, and the first thing it saw that was wrong.
struct Tally {
  int64_t number = 0;
  uint64_t sum = 0;
  const char* fault = nullptr;

  void expect(bool holds, const char* otherwise) {
    if (!holds && fault == nullptr) fault = otherwise;
  }
  void inserted(int64_t key) { ++number, sum += static_cast<uint64_t>(key); }
  void erased(int64_t key) { --number, sum -= static_cast<uint64_t>(key); }
};

// Of eight keys, one is always there and one never: what a test does not change.
inline bool is_constant(int64_t key) { return key % 8 == 0; }
inline bool is_absent(int64_t key) { return key % 8 == 7; }

template <class Client>
void check_find(Client& client, int64_t key, Tally& tally) {
  const std::optional<uint64_t> value = client.find(key);
  tally.expect(!value || *value == stamp(key), "a value of another key");
  tally.expect(!is_constant(key) || value, "a key that is always there was not found");
  tally.expect(!is_absent(key) || !value, "a key that was never inserted was found");
  tally.expect(!is_constant(key) || client.contains(key), "contains misses a constant key");
  tally.expect(!is_absent(key) || !client.contains(key), "contains finds an absent key");
}

template <class Client>
void check_range(Client& client, int64_t lo, int64_t hi, Tally& tally) {
  if constexpr (HasRange<Client>) {
    int64_t last = lo - 1;
    size_t seen = 0;
    int64_t constant = 0;
    const size_t visited = client.range(lo, hi, [&](const Key& its_key, uint64_t value) {
      const auto key = static_cast<int64_t>(its_key);
      tally.expect(key > last && key < hi, "a range out of order or out of bounds");
      tally.expect(value == stamp(key), "a range with a value of another key");
      tally.expect(!is_absent(key), "a range with a key that was never inserted");
      constant += is_constant(key) ? 1 : 0;
      last = key;
      ++seen;
    });
    const auto constant_below = [](int64_t key) { return (key + 7) / 8; };
    tally.expect(visited == seen, "a range miscounts");
    tally.expect(lo > hi || constant == constant_below(hi) - constant_below(lo),
                 "a range misses a constant key");
  }
}

template <class Client>
void random_operations(Client& client, const SetLoad& load, uint64_t seed, Tally& tally) {
  std::mt19937_64 random(seed);
  Key::seed_jitter(static_cast<uint32_t>(seed) | 1);
  for (size_t i = 0; i < load.operations && tally.fault == nullptr; ++i) {
    const uint64_t drawn = random();
    const auto key = static_cast<int64_t>(drawn % static_cast<uint64_t>(load.keys));
    const uint64_t dice = drawn >> 40;
    if (load.ranges && dice % 16 == 0) {
      check_range(client, key, std::min(key + load.keys / 4, load.keys), tally);
    } else if (is_constant(key) || is_absent(key) || dice % 100 < load.finds) {
      check_find(client, key, tally);
    } else if ((dice >> 8) % 2 == 0) {
      if (client.insert(key)) tally.inserted(key);
    } else {
      if (client.erase(key)) tally.erased(key);
    }
  }
}

// Effect: the constant keys are there.
template <class Set, class Domain>
Tally insert_constants(Set& set, Domain& domain, int64_t keys) {
  Client<Set, Domain> client(set, domain, 0);
  Tally tally;
  for (int64_t key = 0; key < keys; key += 8) {
    EXPECT_TRUE(client.insert(key));
    tally.inserted(key);
  }
  return tally;
}

template <class Set>
void expect_sums(const Set& set, const std::vector<Tally>& tallies) {
  Tally all;
  for (const Tally& each : tallies) {
    all.number += each.number;
    all.sum += each.sum;
    EXPECT_EQ(each.fault, nullptr) << each.fault;
  }
  EXPECT_TRUE(set.check());
  EXPECT_EQ(static_cast<int64_t>(set.size()), all.number);
  EXPECT_EQ(set.key_sum(), all.sum);
  set.for_each([](const Key& key, uint64_t value) { EXPECT_EQ(value, stamp(key)); });
}

// All threads at once, each with a client of its own, `rounds` times: threads come and go.
template <class Set, class Domain>
void check_concurrent(Set& set, Domain& domain, const SetLoad& load, unsigned rounds = 1) {
  std::vector<Tally> tallies(load.threads * rounds + 1);
  tallies.back() = insert_constants(set, domain, load.keys);
  for (unsigned round = 0; round < rounds; ++round) {
    std::vector<std::thread> threads;
    for (unsigned number = 0; number < load.threads; ++number) {
      const unsigned place = round * load.threads + number;
      threads.emplace_back([&, place] {
        Client<Set, Domain> client(set, domain, place);
        random_operations(client, load, seed() + place, tallies[place]);
      });
    }
    for (std::thread& each : threads) each.join();
  }
  expect_sums(set, tallies);
  count_cases();
}

// One thread against std::map, with the structure's own check every so often.
template <class Set, class Domain>
void check_sequential(Set& set, Domain& domain, const SetLoad& load,
                      size_t operations_between_checks) {
  Client<Set, Domain> client(set, domain, 1);
  std::map<Key, uint64_t> model;
  std::mt19937_64 random(seed());
  for (size_t i = 0; i < load.operations; ++i) {
    const Key key = static_cast<int64_t>(random() % static_cast<uint64_t>(load.keys));
    const auto found = model.find(key);
    ASSERT_EQ(client.contains(key), found != model.end());
    ASSERT_EQ(client.find(key), found != model.end() ? std::optional(found->second) : std::nullopt);
    if (random() % 2 == 0) {
      ASSERT_EQ(client.insert(key), model.emplace(key, stamp(key)).second);
    } else {
      ASSERT_EQ(client.erase(key), model.erase(key) == 1);
    }
    ASSERT_TRUE(i % operations_between_checks != 0 || set.check());
    if constexpr (HasRange<Set>) {
      const Key hi = static_cast<int64_t>(key) + 16;
      std::map<Key, uint64_t> seen;
      client.range(key, hi, [&](const Key& each, uint64_t value) { seen.emplace(each, value); });
      const std::map<Key, uint64_t> expected(model.lower_bound(key), model.lower_bound(hi));
      ASSERT_EQ(seen, expected);
    }
  }
  ASSERT_TRUE(set.check());
  ASSERT_EQ(set.size(), model.size());
  std::map<Key, uint64_t> copy;
  set.for_each([&](const Key& key, uint64_t value) { copy.emplace(key, value); });
  ASSERT_EQ(copy, model);
  count_cases();
}

}  // namespace near_test

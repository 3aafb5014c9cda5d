// Checks for every set and map of the reclamation library. Its keys are near_test::Key, its values
// uint64_t.
//
// Invariant: a value is the stamp of its key, so that a node that is reused or freed too early
// shows. At the end the set holds what threads inserted less what they erased, by number and by sum
// of keys. A key that is never erased is always found; one that is never inserted is never found.
// Thread-safety: a Tally belongs to one thread at a time; the test's thread uses the rest.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "any_set.h"
#include "jittery_key.h"

namespace near_test {

struct SetLoad {
  unsigned threads = 4;
  int64_t keys = 64;         // keys are [0, keys)
  size_t operations = 2000;  // of each thread
  unsigned finds = 0;        // percent; the rest inserts and erases alike
  bool ranges = false;       // one operation in 16 is a range query, where the structure has them
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

// In every eight keys, one is always in the set and one never: a test does not change these.
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

// The sum of the keys in the set is that of the tallies, and each value is as it was inserted.
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
void check_concurrent(AnySet& set, const SetLoad& load, unsigned rounds = 1);

// One thread against std::map, with the structure's own check every so often.
void check_sequential(AnySet& set, const SetLoad& load, size_t operations_between_checks);

}  // namespace near_test

// hash_map: upsert and compare_and_replace change a key's value in one step, and visit runs beside
// them; with values of any type.
#include <atomic>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "every_scheme.h"
#include "nearmalloc/reclaim/hash_map.hpp"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace near::reclaim;

template <class Scheme>
class HashMapPut : public testing::Test {
 protected:
  HashMapPut() { count_cases(); }
};
TYPED_TEST_SUITE(HashMapPut, EveryScheme);

// A value with memory of its own, longer than a string keeps inside.
std::string text_of(uint64_t number) { return std::string(40, 'x') + std::to_string(number); }

TYPED_TEST(HashMapPut, UpsertInsertsOrReplaces) {
  domain<TypeParam> domain;
  hash_map<std::string, std::string, near::reclaim::domain<TypeParam>> map(domain, 2);
  EXPECT_TRUE(map.upsert("one", text_of(1)));
  EXPECT_FALSE(map.upsert("one", text_of(2)));
  EXPECT_EQ(map.find("one"), text_of(2));
  EXPECT_EQ(map.size(), 1u);
  for (uint64_t i = 0; i < 200; i++) map.upsert(text_of(i % 50), text_of(i));
  EXPECT_EQ(map.size(), 51u);
  EXPECT_EQ(map.find(text_of(7)), text_of(157));
  EXPECT_TRUE(map.erase("one"));
  EXPECT_TRUE(map.upsert("one", text_of(3)));
  EXPECT_TRUE(map.check());
}

TYPED_TEST(HashMapPut, CompareAndReplaceNeedsTheExpectedValue) {
  domain<TypeParam> domain;
  hash_map<int, std::string, near::reclaim::domain<TypeParam>> map(domain);
  EXPECT_FALSE(map.compare_and_replace(1, "", "a"));
  EXPECT_FALSE(map.contains(1));
  map.insert(1, "a");
  EXPECT_FALSE(map.compare_and_replace(1, "b", "c"));
  EXPECT_EQ(map.find(1), "a");
  EXPECT_TRUE(map.compare_and_replace(1, "a", "b"));
  EXPECT_EQ(map.find(1), "b");
  EXPECT_TRUE(map.check());
}

// Each replacement adds 1, so that none may be lost; no key is ever missing.
TYPED_TEST(HashMapPut, NoReplacementIsLostAndNoKeyIsMissing) {
  constexpr uint64_t kKeys = 5;
  domain<TypeParam> domain;
  hash_map<uint64_t, std::string, near::reclaim::domain<TypeParam>> map(domain, 2);
  for (uint64_t key = 0; key < kKeys; key++) map.insert(key, text_of(0));
  const size_t times = scaled(4'000);
  std::atomic<int> missing{0};
  run_threads(4, [&](size_t thread) {
    for (size_t i = 0; i < times; i++) {
      const uint64_t key = (i + thread) % kKeys;
      for (;;) {
        const auto before = map.find(key);
        missing += before.has_value() ? 0 : 1;
        if (!before.has_value()) break;
        const uint64_t number = std::stoull(before->substr(40));
        if (map.compare_and_replace(key, *before, text_of(number + 1))) break;
      }
      // Other keys come and go beside them.
      const uint64_t other = kKeys + (i * 7 + thread) % 20;
      if (!map.insert(other, text_of(i))) map.erase(other);
      if (i % 3 == 0) map.upsert(other, text_of(i));
    }
  });
  EXPECT_EQ(missing, 0);
  uint64_t sum = 0;
  for (uint64_t key = 0; key < kKeys; key++) sum += std::stoull(map.find(key)->substr(40));
  EXPECT_EQ(sum, 4 * times);
  EXPECT_TRUE(map.check());
  count_cases(4 * times);
}

struct Touchy {
  static inline std::function<void()> meanwhile;  // done at the next comparison; that after throws
  static inline int alive = 0;
  explicit Touchy(int its_number) : number(its_number) { alive++; }
  Touchy(const Touchy& other) : number(other.number) { alive++; }
  ~Touchy() { alive--; }
  friend bool operator==(const Touchy& a, const Touchy& b) {
    if (!meanwhile) throw std::runtime_error("compared");
    std::exchange(meanwhile, nullptr)();
    return a.number == b.number;
  }
  int number;
};

// The value changes between the comparison and the exchange, and the next comparison throws: what
// was to be linked is freed.
TYPED_TEST(HashMapPut, AComparisonThatThrowsLeaksNothing) {
  {
    domain<TypeParam> domain;
    hash_map<uint64_t, Touchy, near::reclaim::domain<TypeParam>> map(domain);
    map.insert(1, Touchy(0));
    Touchy::meanwhile = [&] { map.upsert(1, Touchy(0)); };
    EXPECT_THROW(map.compare_and_replace(1, Touchy(0), Touchy(7)), std::runtime_error);
    EXPECT_EQ(map.find(1)->number, 0);
    EXPECT_TRUE(map.check());
  }
  EXPECT_EQ(Touchy::alive, 0);
}

// A visit meets each key that stays once, with one of its values, whatever others do.
TYPED_TEST(HashMapPut, AVisitMeetsWhatStaysOnce) {
  constexpr uint64_t kStay = 100;
  domain<TypeParam> domain;
  hash_map<uint64_t, std::string, near::reclaim::domain<TypeParam>> map(domain, 2);
  for (uint64_t key = 0; key < kStay; key++) map.insert(key, text_of(key));
  std::atomic<int> wrong{0};
  const size_t visits = scaled(100);
  std::atomic<size_t> visitors{2};
  run_threads(4, [&](size_t thread) {
    if (thread < 2) {
      for (size_t i = 0; i < visits; i++) {
        std::map<uint64_t, int> met;
        map.visit([&](uint64_t key, const std::string& value) {
          if (key >= kStay) return;
          met[key]++;
          wrong += std::stoull(value.substr(40)) % kStay == key ? 0 : 1;
          if (key % 10 == 0) wrong += map.contains(key) ? 0 : 1;  // in the midst of the visit
        });
        wrong += met.size() == kStay ? 0 : 1;
        for (const auto& [key, times] : met) wrong += times == 1 ? 0 : 1;
      }
      visitors--;
    } else {
      for (uint64_t i = thread; visitors > 0; i++) {
        const uint64_t key = i * 7 % kStay;
        map.upsert(key, text_of(key + i % 9 * kStay));
        const uint64_t other = kStay + i * 13 % 300;
        if (!map.insert(other, text_of(i))) map.erase(other);
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(map.check());
  count_cases(2 * visits);
}

}  // namespace
}  // namespace near_test

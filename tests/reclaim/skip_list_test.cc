// skip_list: values of any type, replaced in one step, and ranges beside changes. The matrix tests
// what it shares with other maps.
#include "nearmalloc/reclaim/skip_list.hpp"

#include <atomic>
#include <map>
#include <string>

#include "every_scheme.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace near::reclaim;

template <class Scheme>
class SkipList : public testing::Test {
 protected:
  using Domain = near::reclaim::domain<Scheme>;
  using Map = skip_list<std::string, std::string, Domain>;
  using Numbers = skip_list<uint64_t, std::string, Domain>;

  SkipList() { count_cases(); }
};
TYPED_TEST_SUITE(SkipList, EveryScheme);

// A value with memory of its own, longer than a string keeps inside.
std::string text_of(uint64_t number) { return std::string(40, 'x') + std::to_string(number); }
uint64_t number_of(const std::string& text) { return std::stoull(text.substr(40)); }

TYPED_TEST(SkipList, IsAnOrderedMap) {
  typename TestFixture::Domain domain;
  typename TestFixture::Numbers list(domain);
  std::map<uint64_t, std::string> expected;
  uint64_t dice = 1;
  for (int i = 0; i < 5'000; i++) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    const uint64_t key = (dice >> 33) % 500;
    if (dice >> 63 == 0) {
      EXPECT_EQ(list.insert(key, text_of(key)), expected.emplace(key, text_of(key)).second);
    } else {
      EXPECT_EQ(list.erase(key), expected.erase(key) == 1);
    }
    EXPECT_EQ(list.contains(key), expected.contains(key));
  }
  EXPECT_TRUE(list.check());
  std::map<uint64_t, std::string> seen;
  const auto note = [&](uint64_t key, const std::string& text) { seen[key] = text; };
  const size_t visited = list.range(100, 200, note);
  EXPECT_EQ(visited, seen.size());
  EXPECT_EQ(seen, std::map(expected.lower_bound(100), expected.lower_bound(200)));
  seen.clear();
  list.visit(note);
  EXPECT_EQ(seen, expected);
  const size_t before = list.size();
  const size_t erased = list.erase_range(0, 250);
  EXPECT_EQ(erased, before - list.size());
  EXPECT_FALSE(list.contains(249));
  EXPECT_TRUE(list.check());
}

TYPED_TEST(SkipList, UpsertInsertsOrReplaces) {
  typename TestFixture::Domain domain;
  typename TestFixture::Map map(domain);
  EXPECT_TRUE(map.upsert("one", text_of(1)));
  EXPECT_FALSE(map.upsert("one", text_of(2)));
  EXPECT_FALSE(map.insert("one", text_of(3)));
  EXPECT_EQ(map.find("one"), text_of(2));
  EXPECT_TRUE(map.erase("one"));
  EXPECT_FALSE(map.erase("one"));
  EXPECT_TRUE(map.upsert("one", text_of(3)));
  EXPECT_EQ(map.size(), 1u);
  EXPECT_TRUE(map.check());
}

TYPED_TEST(SkipList, CompareAndReplaceNeedsTheExpectedValue) {
  typename TestFixture::Domain domain;
  typename TestFixture::Map map(domain);
  EXPECT_FALSE(map.compare_and_replace("a", "", "1"));
  EXPECT_FALSE(map.contains("a"));
  map.insert("a", "1");
  EXPECT_FALSE(map.compare_and_replace("a", "2", "3"));
  EXPECT_TRUE(map.compare_and_replace("a", "1", "2"));
  EXPECT_EQ(map.find("a"), "2");
  EXPECT_TRUE(map.check());
}

// Each replacement adds 1, so that none may be lost; no key is ever missing, in a range neither.
TYPED_TEST(SkipList, NoReplacementIsLostAndNoKeyIsMissing) {
  constexpr uint64_t kKeys = 5;
  typename TestFixture::Domain domain;
  typename TestFixture::Numbers list(domain);
  for (uint64_t key = 0; key < kKeys; key++) list.insert(2 * key, text_of(0));
  const size_t times = scaled(3'000);
  std::atomic<int> missing{0};
  run_threads(4, [&](size_t thread) {
    for (size_t i = 0; i < times; i++) {
      const uint64_t key = 2 * ((i + thread) % kKeys);
      if (thread == 0) {  // comes and goes beside the others
        list.insert(key + 1, text_of(0));
        list.erase(key + 1);
      }
      for (bool done = false; !done;) {
        const auto before = list.find(key);
        missing += before.has_value() ? 0 : 1;
        if (!before.has_value()) break;
        done = list.compare_and_replace(key, *before, text_of(number_of(*before) + 1));
      }
      size_t there = 0;
      list.range(0, 2 * kKeys, [&](uint64_t each, const auto&) { there += each % 2 == 0 ? 1 : 0; });
      missing += there == kKeys ? 0 : 1;
    }
  });
  EXPECT_EQ(missing, 0);
  uint64_t sum = 0;
  list.for_each([&](uint64_t, const std::string& text) { sum += number_of(text); });
  EXPECT_EQ(sum, 4 * times);
  EXPECT_TRUE(list.check());
}

// Threads insert, erase and upsert the same few keys: each node is retired, by its inserter or its
// eraser, and so is each value.
TYPED_TEST(SkipList, EveryNodeAndValueIsFreed) {
  live_objects = 0;
  struct Counted : CountedObject {
    explicit Counted(uint64_t its) : number(its) {}
    Counted(const Counted& other) : CountedObject(), number(other.number) {}
    uint64_t number;
  };
  const size_t times = scaled(20'000);
  typename TestFixture::Domain domain;
  {
    skip_list<uint64_t, Counted, typename TestFixture::Domain> list(domain);
    run_threads(4, [&](size_t thread) {
      uint64_t dice = thread + 1;
      for (size_t i = 0; i < times; i++) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        const uint64_t key = (dice >> 33) % 4;
        switch (dice >> 62) {
          case 0:
            list.upsert(key, Counted(key));
            break;
          case 1:
            list.insert(key, Counted(key));
            break;
          default:
            list.erase(key);
        }
        const auto found = list.find(key);
        EXPECT_TRUE(!found.has_value() || (found->number == key && found->is_alive()));
      }
    });
    EXPECT_TRUE(list.check());
    const auto there = static_cast<long>(list.size());
    domain.barrier();
    EXPECT_EQ(live_objects, there);
    EXPECT_EQ(domain.collect().unreclaimed, 0u);
  }
  EXPECT_EQ(live_objects, 0);
}

// Threads that follow each other get the same stack, and must not get the same heights.
TEST(SkipListHeight, DiffersAmongThreadsThatFollowEachOther) {
  count_cases();
  int higher = 0;
  for (int i = 0; i < 400; i++) {
    run_threads(1, [&](size_t) { higher += impl::random_height(20) > 1 ? 1 : 0; });
  }
  EXPECT_GT(higher, 40) << "100 are expected";
  EXPECT_LT(higher, 200);
}

}  // namespace
}  // namespace near_test

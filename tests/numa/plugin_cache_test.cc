// The counting plugin's model of private caches (vm/plugin/cache.h) against known counts,
// and against the plainest model of the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "../../vm/plugin/cache.h"
#include "support/cases.h"

namespace near_test {
namespace {

using namespace nearcount;

// Misses, bounces and upgrades of a sequence of accesses.
struct Tally {
  size_t misses = 0;
  size_t bounces = 0;
  size_t upgrades = 0;
  bool operator==(const Tally&) const = default;
};

struct Cache {
  CacheModel model;
  explicit Cache(size_t cpus, const CacheSize& size = {}) : model(cpus, size) {}
  Tally access(unsigned cpu, uint64_t value, bool is_store) {
    const Outcome outcome = model.access(cpu, value, is_store);
    return {outcome.miss, outcome.bounce, outcome.upgrade};
  }
  Tally load(unsigned cpu, uint64_t value) { return access(cpu, value, false); }
  Tally store(unsigned cpu, uint64_t value) { return access(cpu, value, true); }
};

constexpr Tally kHit{}, kMiss{1, 0, 0}, kBounce{1, 1, 0}, kUpgrade{0, 0, 1};

TEST(PluginCache, LinesMoveBetweenCpus) {
  Cache cache(3);
  EXPECT_EQ(cache.load(0, 0), kMiss);
  EXPECT_EQ(cache.load(0, 63), kHit);
  EXPECT_EQ(cache.load(0, 64), kMiss);
  EXPECT_EQ(cache.store(0, 8), kHit) << "nobody else has it";
  EXPECT_EQ(cache.store(1, 8), kBounce);
  EXPECT_EQ(cache.load(0, 8), kBounce) << "CPU 1 took it away";
  EXPECT_EQ(cache.load(2, 8), kMiss) << "it is written by nobody since it was shared";
  EXPECT_EQ(cache.store(1, 8), kUpgrade);
  EXPECT_EQ(cache.store(1, 8), kHit);
  EXPECT_EQ(cache.store(2, 8), kBounce);
  EXPECT_EQ(cache.load(2, 8), kHit);
  cache.model.clear();
  EXPECT_EQ(cache.load(2, 8), kMiss) << "after clear()";
  count_cases(12);
}

TEST(PluginCache, TheOldestLineOfASetLeaves) {
  const CacheSize size{.kib = 1, .ways = 2, .line = 64};  // eight sets
  const uint64_t apart = 8 * 64;
  Cache cache(2, size);
  EXPECT_EQ(cache.store(0, 0), kMiss);
  EXPECT_EQ(cache.load(0, apart), kMiss);
  EXPECT_EQ(cache.load(0, 0), kHit);
  EXPECT_EQ(cache.load(0, 2 * apart), kMiss);  // evicts `apart`
  EXPECT_EQ(cache.load(0, 0), kHit);
  EXPECT_EQ(cache.load(0, 64), kMiss) << "another set";
  EXPECT_EQ(cache.load(0, apart), kMiss);
  EXPECT_EQ(cache.load(0, 2 * apart), kMiss);  // 0 was evicted
  EXPECT_EQ(cache.load(1, 0), kMiss) << "whoever wrote it has it no more";
  count_cases(9);
}

TEST(PluginCache, ALineThatWasTakenAwayLeavesBeforeTheOldest) {
  const CacheSize size{.kib = 1, .ways = 2, .line = 64};
  const uint64_t apart = 8 * 64;
  Cache cache(2, size);
  EXPECT_EQ(cache.load(0, 0), kMiss);
  EXPECT_EQ(cache.load(0, apart), kMiss);
  EXPECT_EQ(cache.store(1, apart), kMiss);
  EXPECT_EQ(cache.load(0, 2 * apart), kMiss);  // in its place
  EXPECT_EQ(cache.load(0, 0), kHit) << "the oldest is still there";
  EXPECT_EQ(cache.load(0, apart), kBounce);
  count_cases(6);
}

// The plainest model of the same: a list of lines for each set, the newest first.
struct PlainCache {
  struct Line {
    uint64_t line;
    bool is_valid;
    bool is_owned;
  };
  CacheSize size;
  std::vector<std::vector<std::vector<Line>>> sets;  // by CPU

  PlainCache(size_t cpus, const CacheSize& of)
      : size(of), sets(cpus, std::vector<std::vector<Line>>(of.sets())) {}

  Tally access(unsigned cpu, uint64_t value, bool is_store) {
    const uint64_t line = value / size.line;
    auto& set = sets[cpu][line % size.sets()];
    const auto found =
        std::find_if(set.begin(), set.end(), [&](const Line& each) { return each.line == line; });
    Line mine{line, false, false};
    if (found != set.end()) {
      mine = *found;
      set.erase(found);
    } else if (set.size() == size.ways) {
      const auto lost =
          std::find_if(set.rbegin(), set.rend(), [](const Line& each) { return !each.is_valid; });
      set.erase(lost == set.rend() ? set.end() - 1 : lost.base() - 1);
    }
    Tally tally{mine.is_valid ? 0U : 1U, 0, 0};
    for (unsigned other = 0; other < sets.size(); ++other) {
      if (other == cpu) continue;
      for (Line& each : sets[other][line % size.sets()]) {
        if (each.line != line || !each.is_valid) continue;
        if (each.is_owned && !mine.is_valid) tally.bounces = 1;
        if (is_store && mine.is_valid) tally.upgrades = 1;
        each.is_owned = false;
        if (is_store) each.is_valid = false;
      }
    }
    mine.is_valid = true;
    mine.is_owned = mine.is_owned || is_store;
    set.insert(set.begin(), mine);
    return tally;
  }
};

TEST(PluginCache, AgreesWithAPlainOne) {
  constexpr size_t kCpus = 4;
  const CacheSize size{.kib = 2, .ways = 4, .line = 64};
  Cache cache(kCpus, size);
  PlainCache plain(kCpus, size);
  std::mt19937_64 random(seed());
  for (size_t i = 0; i < 100'000; ++i) {
    const auto cpu = static_cast<unsigned>(random() % kCpus);
    const uint64_t value = random() % 8192;
    const bool is_store = random() % 3 == 0;
    ASSERT_EQ(cache.access(cpu, value, is_store), plain.access(cpu, value, is_store)) << i;
  }
  count_cases(100'000);
}

}  // namespace
}  // namespace near_test

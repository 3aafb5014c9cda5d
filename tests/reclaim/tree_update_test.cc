// The trees: update, upsert, compare_and_replace and take change a key's value in one step, under
// every scheme. Each value is a ticket that exists once, so a lost or repeated step shows.
#include <atomic>
#include <map>
#include <optional>
#include <vector>

#include "every_scheme.h"
#include "nearmalloc/reclaim/abtree.hpp"
#include "nearmalloc/reclaim/occtree.hpp"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace near::reclaim;
using Key = int64_t;
using Value = uint64_t;

struct Hasty : options {
  Hasty() : options(hasty()) {}
};

// Nodes of at most five entries: leaves split and join all the time.
template <class Scheme>
using SmallAbtree = abtree<Key, Value, domain<Scheme>, 5>;
template <class Scheme>
using Occtree = occtree<Key, Value, domain<Scheme>>;

template <class Scheme>
class TreeUpdate : public testing::Test {
 protected:
  TreeUpdate() { count_cases(); }

  // Runs test(tree, domain) on both trees.
  template <class Test>
  static void on_both(Test test) {
    {
      domain<Scheme> domain{Hasty()};
      SmallAbtree<Scheme> tree(domain);
      test(tree);
      EXPECT_TRUE(tree.check());
    }
    {
      domain<Scheme> domain{Hasty()};
      Occtree<Scheme> tree(domain);
      test(tree);
      EXPECT_TRUE(tree.check());
    }
  }
};
TYPED_TEST_SUITE(TreeUpdate, EveryScheme);

std::optional<Value> one_more(const std::optional<Value>& there) { return there.value_or(0) + 1; }

TYPED_TEST(TreeUpdate, BehavesLikeAMap) {
  TestFixture::on_both([](auto& tree) {
    std::map<Key, Value> expected;
    uint64_t dice = 1;
    for (int i = 0; i < 5'000; i++) {
      dice = dice * 6364136223846793005u + 1442695040888963407u;
      const Key key = static_cast<Key>((dice >> 33) % 100);
      const auto place = expected.find(key);
      const bool is_there = place != expected.end();
      switch (dice >> 61) {
        case 0:
        case 1:
          ASSERT_EQ(tree.upsert(key, dice), !is_there);
          expected[key] = dice;
          break;
        case 2: {
          const auto done = tree.update(key, one_more);
          ASSERT_TRUE(done.changed);
          ASSERT_EQ(done.before, is_there ? std::optional(place->second) : std::nullopt);
          expected[key]++;
          break;
        }
        case 3: {  // changes nothing
          const auto none = [](const std::optional<Value>&) { return std::optional<Value>(); };
          ASSERT_FALSE(tree.update(key, none).changed);
          break;
        }
        case 4: {
          const Value old = is_there ? place->second : 0;
          ASSERT_EQ(tree.compare_and_replace(key, old, dice), is_there);
          ASSERT_FALSE(tree.compare_and_replace(key, dice + 1, 0));
          if (is_there) place->second = dice;
          break;
        }
        default:
          ASSERT_EQ(tree.take(key), is_there ? std::optional(place->second) : std::nullopt);
          expected.erase(key);
      }
      const auto now = expected.find(key);
      ASSERT_EQ(tree.find(key), now != expected.end() ? std::optional(now->second) : std::nullopt);
    }
    std::map<Key, Value> found;
    tree.for_each([&](Key key, Value value) { found[key] = value; });
    EXPECT_EQ(found, expected);
  });
}

TYPED_TEST(TreeUpdate, AnExceptionOfTheFunctionChangesNothing) {
  TestFixture::on_both([](auto& tree) {
    tree.insert(1, 10);
    const auto refuse = [](const std::optional<Value>&) -> std::optional<Value> { throw 7; };
    EXPECT_THROW(tree.update(1, refuse), int);
    EXPECT_THROW(tree.update(2, refuse), int);
    EXPECT_EQ(tree.find(1), 10u);
    EXPECT_FALSE(tree.contains(2));
    EXPECT_FALSE(tree.upsert(1, 11));
  });
}

// Each update adds 1. What one thread reads of a key never goes back, and no key is ever missing.
TYPED_TEST(TreeUpdate, NoUpdateIsLostAndNoKeyIsMissing) {
  constexpr Key kKeys = 5;
  const size_t times = scaled(3'000);
  TestFixture::on_both([&](auto& tree) {
    for (Key key = 0; key < kKeys; key++) tree.insert(2 * key, 0);
    std::atomic<int> wrong{0};
    run_threads(4, [&](size_t thread) {
      std::vector<Value> last(kKeys);
      for (size_t i = 0; i < times; i++) {
        const auto number = static_cast<Key>((i + thread) % kKeys);
        if (thread % 2 == 0) {
          wrong += tree.update(2 * number, one_more).before.has_value() ? 0 : 1;
        } else {
          for (bool done = false; !done;) {
            const auto before = tree.find(2 * number);
            wrong += before && *before >= last[number] ? 0 : 1;
            if (!before) break;
            last[number] = *before;
            done = tree.compare_and_replace(2 * number, *before, *before + 1);
          }
        }
        // Other keys come and go beside them, so that nodes are replaced.
        const Key other = 2 * static_cast<Key>((i * 7 + thread) % 40) + 1;
        if (!tree.insert(other, i)) tree.erase(other);
        size_t there = 0;
        if (i % 16 == 0) {
          tree.range(0, 2 * kKeys, [&](Key key, Value) { there += key % 2 == 0 ? 1 : 0; });
          wrong += there == kKeys ? 0 : 1;
        }
      }
    });
    EXPECT_EQ(wrong, 0);
    Value sum = 0;
    for (Key key = 0; key < kKeys; key++) sum += tree.find(2 * key).value_or(0);
    EXPECT_EQ(sum, 4 * times);
    count_cases(4 * times);
  });
}

// Threads put tickets at a few keys and take them away: each ticket that was put leaves once, by
// the step that replaced or took it, or is there at the end.
TYPED_TEST(TreeUpdate, EachTicketLeavesOnce) {
  constexpr Key kKeys = 6;
  const size_t times = scaled(4'000);
  TestFixture::on_both([&](auto& tree) {
    std::vector<std::atomic<int>> seen(4 * times);
    std::atomic<int> refused{0};
    const auto leaves = [&](const std::optional<Value>& ticket) {
      if (ticket) seen[*ticket]++;
    };
    run_threads(4, [&](size_t thread) {
      uint64_t dice = thread + 1;
      for (size_t i = 0; i < times; i++) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        const auto key = static_cast<Key>((dice >> 33) % kKeys);
        const Value ticket = thread * times + i;
        const auto put = [&](const std::optional<Value>&) { return std::optional(ticket); };
        switch (dice >> 62) {
          case 0:
            leaves(tree.update(key, put).before);
            break;
          case 1: {
            const auto found = tree.find(key);
            const bool replaced = found && tree.compare_and_replace(key, *found, ticket);
            if (replaced) leaves(found);
            if (!replaced) seen[ticket]++, refused++;
            break;
          }
          case 2:
            if (!tree.insert(key, ticket)) seen[ticket]++, refused++;
            break;
          default:
            seen[ticket]++, refused++;
            leaves(tree.take(key));
        }
      }
    });
    tree.for_each([&](Key, Value ticket) { seen[ticket]++; });
    int wrong = 0;
    for (const auto& each : seen) wrong += each == 1 ? 0 : 1;
    EXPECT_EQ(wrong, 0);
    EXPECT_LT(refused, static_cast<int>(4 * times));
    count_cases(4 * times);
  });
}

}  // namespace
}  // namespace near_test

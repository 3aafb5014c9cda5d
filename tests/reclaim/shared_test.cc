// atomic_shared_ptr: every object is destroyed once, after its last reference and after the last
// guard that protects it.
#include "nearmalloc/reclaim/shared.hpp"

#include <atomic>
#include <stdexcept>
#include <utility>
#include <vector>

#include "every_scheme.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace near::reclaim;

struct Number : CountedObject {
  explicit Number(size_t its_number = 0) : number(its_number) {}
  size_t number;
};

template <class Scheme>
class SharedTest : public testing::Test {
 protected:
  SharedTest() {
    live_objects = 0;
    count_cases();
  }
  ~SharedTest() override { EXPECT_EQ(live_objects, 0); }

  // An object whose reference another one held needs a barrier more.
  static void barrier(domain<Scheme>& domain, int times = 1) {
    for (int i = 0; i < times; i++) domain.barrier();
  }
};
TYPED_TEST_SUITE(SharedTest, EveryScheme);

TYPED_TEST(SharedTest, AReferenceOutlivesTheLocation) {
  domain<TypeParam> domain;
  near::reclaim::shared_ptr<Number> kept;
  {
    atomic_shared_ptr<Number, near::reclaim::domain<TypeParam>> place(domain,
                                                                      make_shared<Number>(7u));
    kept = place.load();
    EXPECT_EQ(kept.use_count(), 2u);
    auto copy = kept;
    EXPECT_TRUE(copy == kept);
  }
  this->barrier(domain);
  EXPECT_EQ(kept.use_count(), 1u);
  EXPECT_EQ(kept->number, 7u);
  kept = nullptr;
  EXPECT_EQ(live_objects, 0);
}

TYPED_TEST(SharedTest, ASnapshotCountsNothingAndStaysUntilTheGuardEnds) {
  domain<TypeParam> domain;
  atomic_shared_ptr<Number, near::reclaim::domain<TypeParam>> place(domain,
                                                                    make_shared<Number>(7u));
  {
    auto guard = domain.pin();
    const auto now = place.snapshot(guard);
    place.store(make_shared<Number>(8u));
    for (int i = 0; i < 4000; i++) domain.retire(new char);
    EXPECT_TRUE(now->is_alive());
    EXPECT_EQ(now->number, 7u);
    EXPECT_EQ(now.share().use_count(), 2u);
    EXPECT_EQ(place.snapshot(guard, 1)->number, 8u);
  }
  this->barrier(domain);
  EXPECT_EQ(live_objects, 1);
  place.store(nullptr);
  EXPECT_FALSE(place.load());
  this->barrier(domain);
}

TYPED_TEST(SharedTest, ExchangeAndCompareExchangeMoveReferences) {
  domain<TypeParam> domain;
  atomic_shared_ptr<Number, near::reclaim::domain<TypeParam>> place(domain);
  auto first = make_shared<Number>(1u);
  EXPECT_FALSE(place.exchange(first));
  EXPECT_TRUE(place.exchange(make_shared<Number>(2u)) == first);
  this->barrier(domain);
  EXPECT_EQ(first.use_count(), 1u);
  {
    auto guard = domain.pin();
    auto next = make_shared<Number>(3u);
    EXPECT_FALSE(place.compare_exchange(guard, first, next));
    EXPECT_EQ(next->number, 3u);
    EXPECT_TRUE(place.compare_exchange(guard, place.snapshot(guard), next));
    EXPECT_FALSE(next);
    next = first;
    EXPECT_TRUE(place.compare_exchange(guard, place.load(), next));
    EXPECT_TRUE(place.load() == first);
  }
  place.store(nullptr);
  this->barrier(domain, 2);
  EXPECT_EQ(first.use_count(), 1u);
}

// An object that a reader holds may be put into a location again and again: of all the references
// that are retired, a slot keeps one.
TYPED_TEST(SharedTest, ASlotKeepsOneReferenceOfManyThatAreRetired) {
  domain<TypeParam> domain;
  atomic_shared_ptr<Number, near::reclaim::domain<TypeParam>> place(domain,
                                                                    make_shared<Number>(7u));
  const auto kept = place.load();
  {
    auto guard = domain.pin();
    const auto seen = place.snapshot(guard);
    for (int i = 0; i < 10'000; i++) place.store(kept);
    const statistics sums = domain.collect();
    EXPECT_TRUE(sums.bound == 0 || sums.unreclaimed <= sums.bound);
    EXPECT_TRUE(seen->is_alive());
  }
  place.store(nullptr);
  this->barrier(domain);
  EXPECT_EQ(kept.use_count(), 1u);
}

// The same objects are in two locations, so they are retired by both.
TYPED_TEST(SharedTest, NothingIsDestroyedTooSoonOrTwice) {
  domain<TypeParam> domain;
  using Place = atomic_shared_ptr<Number, near::reclaim::domain<TypeParam>>;
  Place places[2] = {Place(domain, make_shared<Number>(0u)),
                     Place(domain, make_shared<Number>(0u))};
  std::atomic<int> wrong{0};
  const size_t times = scaled(20'000);
  run_threads(4, [&](size_t thread) {
    near::reclaim::shared_ptr<Number> kept;
    for (size_t i = 0; i < times; i++) {
      Place& mine = places[(i + thread) % 2];
      Place& other = places[(i + thread + 1) % 2];
      switch (i % 5) {
        case 0:
          mine.store(make_shared<Number>(i));
          break;
        case 1:
          kept = mine.load();
          break;
        case 2:
          mine.store(kept);
          break;
        case 3: {
          auto guard = domain.pin();
          const auto seen = mine.snapshot(guard);
          auto next = other.load();
          wrong += !seen->is_alive();
          mine.compare_exchange(guard, seen, next);
          wrong += !seen->is_alive();
          break;
        }
        default:
          kept = mine.exchange(other.load());
      }
      wrong += !kept || kept->is_alive() ? 0 : 1;
      if (!kept) kept = mine.load();
    }
  });
  EXPECT_EQ(wrong, 0);
  for (Place& each : places) each.store(nullptr);
  this->barrier(domain);
  EXPECT_EQ(live_objects, 0);
  count_cases(4 * times);
}

// A stack whose nodes hold the next ones: freed one after the other, without recursion.
template <class Domain>
struct Link : Number {
  Link(Domain& domain, size_t its_number) : Number(its_number), next(domain) {}
  atomic_shared_ptr<Link, Domain> next;
};

TYPED_TEST(SharedTest, AStackOfReferencesLosesNothing) {
  using Domain = domain<TypeParam>;
  using Node = Link<Domain>;
  std::atomic<size_t> sum{0};
  const size_t times = scaled(5'000);
  {
    Domain domain;
    atomic_shared_ptr<Node, Domain> top(domain);
    run_threads(3, [&](size_t) {
      for (size_t i = 1; i <= times; i++) {
        auto guard = domain.pin();
        auto node = make_shared<Node>(domain, i);
        for (;;) {
          auto below = top.load();
          node->next.store(below);
          if (top.compare_exchange(guard, below, node)) break;
        }
        for (;;) {
          const auto first = top.load();
          if (!first) break;
          auto below = first->next.load();
          if (!top.compare_exchange(guard, first, below)) continue;
          sum += first->number;
          break;
        }
      }
    });
    EXPECT_EQ(sum, 3 * times * (times + 1) / 2);
    for (size_t i = 0; i < 1000; i++) {  // a chain that ends with its domain
      auto node = make_shared<Node>(domain, i);
      node->next.store(top.load());
      top.store(std::move(node));
    }
  }
  EXPECT_EQ(live_objects, 0);
  count_cases(3 * times);
}

struct Throws {
  Throws() { throw std::runtime_error("no"); }
};

TYPED_TEST(SharedTest, AConstructorThatThrowsLeavesNothing) {
  EXPECT_THROW(make_shared<Throws>(), std::runtime_error);
}

// Under ibr objects have a birth, so a reader that stalls does not keep younger ones.
TEST(SharedUnderIbr, AStalledReaderKeepsNoYoungerObject) {
  live_objects = 0;
  {
    options settings;
    settings.batch_size = 64;
    settings.reclaim = policy::batch();
    domain<ibr> domain(settings);
    atomic_shared_ptr<Number, near::reclaim::domain<ibr>> place(domain, make_shared<Number>(0u));
    auto reader = domain.attach();
    auto guard = reader.pin();
    const auto seen = place.snapshot(guard);
    for (size_t i = 0; i < 5000; i++) place.store(make_shared<Number>(i));
    EXPECT_TRUE(seen->is_alive());
    EXPECT_LE(live_objects, 400);
  }
  EXPECT_EQ(live_objects, 0);
  count_cases();
}

}  // namespace
}  // namespace near_test

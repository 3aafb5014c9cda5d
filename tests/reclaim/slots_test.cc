// Slots belong to guards: what one protects stays, whatever the thread does with other guards and
// with structures meanwhile.
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "every_scheme.h"
#include "nearmalloc/reclaim/abtree.hpp"
#include "nearmalloc/reclaim/hash_map.hpp"
#include "nearmalloc/reclaim/list.hpp"
#include "nearmalloc/reclaim/occtree.hpp"
#include "support/cases.h"

namespace near_test {
namespace {

using namespace near::reclaim;

options eager() {
  options settings;
  settings.batch_size = 1;
  settings.reclaim = policy::batch();
  return settings;
}

template <class Scheme>
class SlotsTest : public testing::Test {
 protected:
  SlotsTest() {
    live_objects = 0;
    count_cases();
  }
  ~SlotsTest() override { EXPECT_EQ(live_objects, 0); }

  // Another thread unlinks the object at `source`; all unheld retired objects are freed.
  static void replace(domain<Scheme>& domain, std::atomic<CountedObject*>& source) {
    std::thread([&] {
      domain.retire(source.exchange(nullptr));
      for (int i = 0; i < 3000; i++) domain.retire(new char);
    }).join();
  }
};
TYPED_TEST_SUITE(SlotsTest, EveryScheme);

// A structure's operation must not end the protection by any slot of the caller's guard.
template <class Structure, class Domain>
void expect_slots_untouched(Domain& domain, bool under_the_same_guard) {
  Structure set(domain);
  for (long i = 0; i < 200; i++) set.insert(i, i);
  std::vector<std::atomic<CountedObject*>> sources(Domain::guard_type::slots);
  for (auto& each : sources) each = new CountedObject;
  {
    auto guard = domain.pin();
    unsigned slot = 0;
    for (auto& each : sources) guard.protect(slot++, each);
    for (long i = 0; i < 300; i++) {
      if (under_the_same_guard) {
        EXPECT_EQ(set.contains(guard, i), i < 200);
        EXPECT_EQ(set.erase(guard, i), i < 200);
        EXPECT_TRUE(set.insert(guard, i, i));
        EXPECT_EQ(set.find(guard, i), i);
      } else {
        EXPECT_EQ(set.contains(i), i < 200);
        EXPECT_EQ(set.erase(i), i < 200);
        EXPECT_TRUE(set.insert(i, i));
        EXPECT_EQ(set.find(i), i);
      }
    }
    std::thread([&] {
      for (auto& each : sources) domain.retire(each.exchange(nullptr));
      for (int i = 0; i < 3000; i++) domain.retire(new char);
    }).join();
    EXPECT_EQ(live_objects, static_cast<long>(sources.size()));
  }
  domain.barrier();
  EXPECT_EQ(live_objects, 0);
}

TYPED_TEST(SlotsTest, StructuresLeaveTheCallersSlotsAlone) {
  domain<TypeParam> domain(eager());
  using Domain = decltype(domain);
  for (const bool under_the_same_guard : {false, true}) {
    expect_slots_untouched<abtree<long, long, Domain>>(domain, under_the_same_guard);
    expect_slots_untouched<occtree<long, long, Domain>>(domain, under_the_same_guard);
    expect_slots_untouched<list_set<long, long, Domain>>(domain, under_the_same_guard);
    expect_slots_untouched<hash_map<long, long, Domain>>(domain, under_the_same_guard);
  }
}

// The visited place is held while the visitor goes through another structure, and the same one.
TYPED_TEST(SlotsTest, AVisitorMayUseStructuresOfTheDomain) {
  domain<TypeParam> domain(eager());
  list_set<long, long, decltype(domain)> outer(domain);
  list_set<long, long, decltype(domain)> inner(domain);
  for (long i = 0; i < 50; i++) outer.insert(i, i);
  for (long i = 0; i < 50; i++) inner.insert(i, i);
  auto guard = domain.pin();
  const size_t visited = outer.range(guard, 0, 50, [&](long key, long) {
    EXPECT_TRUE(inner.erase(guard, key));
    EXPECT_TRUE(inner.insert(guard, key, key));
    EXPECT_TRUE(outer.contains(guard, 49 - key));
  });
  EXPECT_EQ(visited, 50u);
}

TYPED_TEST(SlotsTest, ANestedGuardHasSlotsOfItsOwn) {
  domain<TypeParam> domain(eager());
  std::atomic<CountedObject*> kept{new CountedObject};
  std::atomic<CountedObject*> other{new CountedObject};
  {
    auto guard = domain.pin();
    guard.protect(0, kept);
    {
      auto inner = domain.pin();
      inner.protect(0, other);
    }
    {
      auto inner = guard.nested();
      inner.hold(0, nullptr);
    }
    this->replace(domain, kept);
    EXPECT_EQ(live_objects, 2);
    this->replace(domain, other);
    EXPECT_GE(live_objects, 1);
  }
  domain.barrier();
}

TYPED_TEST(SlotsTest, GuardsMayEndInAnyOrder) {
  domain<TypeParam> domain(eager());
  auto handle = domain.attach();
  using Guard = typename decltype(domain)::guard_type;
  std::atomic<CountedObject*> sources[3];
  std::unique_ptr<Guard> guards[3];
  for (int i = 0; i < 3; i++) {
    sources[i] = new CountedObject;
    guards[i].reset(new Guard(handle.pin()));
    guards[i]->protect(0, sources[i]);
  }
  guards[0].reset();
  guards[1].reset();
  guards[0].reset(new Guard(handle.pin()));
  guards[0]->hold(0, nullptr);
  this->replace(domain, sources[2]);
  EXPECT_EQ(live_objects, 3);
  guards[0].reset();
  guards[2].reset();
  for (int i = 0; i < 2; i++) this->replace(domain, sources[i]);
  domain.barrier();
}

TYPED_TEST(SlotsTest, AnyNumberOfGuardsNestsAsLongAsSixteenProtect) {
  domain<TypeParam> domain(eager());
  std::atomic<CountedObject*> source{new CountedObject};
  using Guard = typename decltype(domain)::guard_type;
  std::vector<std::unique_ptr<Guard>> guards;
  for (unsigned i = 0; i < 200; i++) {
    guards.emplace_back(new Guard(domain.pin()));
    if (i % 13 == 0) guards.back()->protect(Guard::slots - 1, source);
  }
  this->replace(domain, source);
  EXPECT_EQ(live_objects, 1);
  guards.clear();
  domain.barrier();
}

// Its destructor looks up a key, inside the retirement of another object.
template <class Scheme>
struct Reader {
  ~Reader() {
    auto guard = home.pin();
    EXPECT_NE(guard.protect(0, source), nullptr);
  }
  domain<Scheme>& home;
  std::atomic<CountedObject*>& source;
};

TYPED_TEST(SlotsTest, ADeleterThatProtectsTakesNoSlotOfTheInterrupted) {
  std::atomic<CountedObject*> kept{new CountedObject};
  std::atomic<CountedObject*> looked_up{new CountedObject};
  {
    domain<TypeParam> domain(eager());
    auto guard = domain.pin();
    guard.protect(0, kept);
    for (int i = 0; i < 500; i++) guard.retire(new Reader<TypeParam>{domain, looked_up});
    for (int i = 0; i < 2000; i++) domain.retire(new char);
    this->replace(domain, kept);
    EXPECT_EQ(live_objects, 2);
    guard.repin();
  }
  delete looked_up.load();
}

TEST(SlotsDeathTest, SlotsThatAreNotThereAreRefused) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  using Guard = domain<hazard_pointers>::guard_type;
  EXPECT_DEATH(
      {
        domain<hazard_pointers> domain;
        domain.pin().hold(Guard::slots, &domain);
      },
      "a slot beyond guard::slots");
  EXPECT_DEATH(
      {
        domain<hazard_pointers> domain;
        std::vector<std::unique_ptr<Guard>> guards;
        for (;;) guards.emplace_back(new Guard(domain.pin()))->hold(0, &domain);
      },
      "too many guards of one thread protect at a time");
  count_cases(2);
}

}  // namespace
}  // namespace near_test

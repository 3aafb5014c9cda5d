// checkpoints: a long walk lets epochs end; its place stays while it is in a slot.
//
// One thread plays all: each handle stands for a thread, and code that a walk calls runs others.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "every_scheme.h"
#include "nearmalloc/reclaim/abtree.hpp"
#include "nearmalloc/reclaim/hash_map.hpp"
#include "nearmalloc/reclaim/list.hpp"
#include "nearmalloc/reclaim/occtree.hpp"
#include "nearmalloc/reclaim/skip_list.hpp"
#include "nearmalloc/reclaim/versioned.hpp"
#include "single_step.h"
#include "support/cases.h"

namespace near_test {
namespace {

using namespace near::reclaim;

using Domain = domain<checkpoints>;
using Handle = Domain::handle_type;

// Retires in so many operations; the epoch moves until another guard holds it.
void advance(Handle& other, int operations = 20) {
  for (int i = 0; i < operations; i++) other.pin().retire(new CountedObject);
}

// Runs a function at each comparison.
struct Watched {
  int number = 0;
  static inline std::function<void(int)> watch;

  friend bool operator<(const Watched& a, const Watched& b) {
    if (watch) watch(a.number);
    return a.number < b.number;
  }
  explicit operator uint64_t() const { return static_cast<uint64_t>(number); }
};

struct Pinned {
  explicit Pinned(Handle& handle) : guard(handle.pin()) {}
  Domain::guard_type guard;
};

class Checkpoints : public testing::Test {
 protected:
  void SetUp() override { live_objects = 0; }
  void TearDown() override { Watched::watch = nullptr; }

  uint64_t epochs() const { return domain_.collect().epochs; }

  Domain domain_{hasty()};
  Handle walks_ = domain_.attach();
  Handle other_ = domain_.attach();
};

TEST_F(Checkpoints, AreMadeOnlyIfAllowedAndAsked) {
  auto guard = walks_.pin();
  advance(other_);
  EXPECT_FALSE(guard.checkpoint());
  EXPECT_FALSE(guard.allow_checkpoints());
  {
    auto inner = walks_.pin();
    inner.allow_checkpoints();
    EXPECT_FALSE(inner.checkpoint()) << "nested";
    EXPECT_FALSE(guard.checkpoint()) << "nested guards may use what they read";
  }
  EXPECT_TRUE(guard.checkpoint());
  EXPECT_FALSE(guard.checkpoint()) << "nobody waits";
  advance(other_);
  EXPECT_TRUE(guard.checkpoint());
  EXPECT_TRUE(guard.allow_checkpoints(false));
  advance(other_);
  EXPECT_FALSE(guard.checkpoint());
  guard.allow_checkpoints();
  guard.repin();
  advance(other_);
  EXPECT_TRUE(guard.checkpoint()) << "still allowed after repin";
  count_cases();
}

// Updates a key that is there, and one that is not.
template <class Tree>
void update_beside_epochs(Tree& tree, Handle& walks, Handle& other) {
  tree.insert(1, 1);
  for (const long key : {1, 2}) {
    auto guard = walks.pin();
    guard.allow_checkpoints();
    const auto change = [&](const std::optional<long>&) {
      advance(other);
      EXPECT_FALSE(guard.checkpoint()) << "the tree goes on with what it found";
      return std::optional<long>(7);
    };
    EXPECT_TRUE(tree.update(guard, key, change).changed);
    EXPECT_EQ(tree.find(guard, key), 7);
    advance(other);
    EXPECT_TRUE(guard.checkpoint());
    count_cases();
  }
}

TEST_F(Checkpoints, AnUpdateOfATreeStaysInItsSection) {
  abtree<long, long, Domain> abtree(domain_);
  update_beside_epochs(abtree, walks_, other_);
  occtree<long, long, Domain> occtree(domain_);
  update_beside_epochs(occtree, walks_, other_);
}

TEST_F(Checkpoints, LetEpochsEnd) {
  auto guard = walks_.pin();
  const uint64_t before = epochs();
  advance(other_, 100);
  EXPECT_LE(epochs(), before + 1) << "the section holds the epoch";
  const long kept = live_objects;
  EXPECT_GE(kept, 95);
  guard.allow_checkpoints();
  for (int i = 0; i < 20; i++) {
    advance(other_, 10);
    guard.checkpoint();
  }
  EXPECT_GE(epochs(), before + 10);
  EXPECT_LE(live_objects, 70);
  count_cases();
}

TEST_F(Checkpoints, KeepWhatIsHeldAndNoMore) {
  auto* const held = new CountedObject;
  auto* const second = new CountedObject;
  auto* const other = new CountedObject;
  {
    auto guard = walks_.pin();
    guard.allow_checkpoints();
    advance(other_);
    ASSERT_TRUE(guard.checkpoint(held, second));
    for (CountedObject* each : {held, second, other}) other_.retire(each);
    // The section itself protects all three. From the next checkpoint on only slots do.
    advance(other_);
    ASSERT_TRUE(guard.checkpoint(held, second));
    const auto move = [&](auto*... objects) {
      for (int i = 0; i < 10; i++) {
        advance(other_);
        ASSERT_TRUE(guard.checkpoint(objects...));
      }
    };
    move(held, second);
    EXPECT_TRUE(held->is_alive());
    EXPECT_TRUE(second->is_alive());
    EXPECT_LE(live_objects, 70);
    const uint64_t looks = domain_.collect().looks;
    EXPECT_GE(looks, 10u);
    move(held);
    EXPECT_TRUE(held->is_alive());
  }
  for (int i = 0; i < 20; i++) {
    advance(other_);
    auto guard = walks_.pin();
  }
  domain_.barrier();
  EXPECT_EQ(live_objects, 0);
  count_cases();
}

// The checkpoint does the work that was due; the debt is still known at the next pin.
TEST(CheckpointsAtTheLimit, ADebtIsPaidAtTheNextPin) {
  options settings;
  settings.reclaim = policy::manual();
  settings.batch_size = 64;
  settings.operations_between_checks = 1;
  settings.max_unreclaimed_bytes = 1000;
  settings.when_full = at_limit::block;
  Domain domain(settings);
  Handle walks = domain.attach();
  Handle other = domain.attach();
  const deleter ignore = [](void*) noexcept {};
  {
    Pinned mine(walks);
    mine.guard.allow_checkpoints();
    for (int i = 0; i < 20; i++) mine.guard.retire(&settings, ignore, 100);
    for (int i = 0; i < 300; i++) other.retire(&settings, ignore, 0);
    EXPECT_TRUE(mine.guard.checkpoint());
    EXPECT_GT(domain.collect().unreclaimed_bytes, settings.max_unreclaimed_bytes);
  }
  {
    const Pinned pays(walks);
  }
  EXPECT_LE(domain.collect().unreclaimed_bytes, settings.max_unreclaimed_bytes);
  count_cases();
}

#if NEAR_TEST_STEPS
// What the handler protects stays, and so does what the checkpoint holds.
TEST_F(Checkpoints, AHandlersGuardMayComeAtAnyInstruction) {
  bool has_acted = true;
  for (long at = 1; has_acted && !HasFailure(); at += at < 45 ? 1 : at / 6) {
    auto* const place = new CountedObject;
    auto* const seen = new CountedObject;
    {
      Pinned mine(walks_);
      mine.guard.allow_checkpoints();
      advance(other_);
      SingleStep step(at, [&] {
        const auto guard = walks_.pin_in_handler();
        other_.retire(seen);
        advance(other_);
        EXPECT_TRUE(seen->is_alive());
      });
      step.go();
      const bool has_begun = mine.guard.checkpoint(place);
      step.halt();
      EXPECT_TRUE(has_begun);
      has_acted = step.has_acted();
      if (!has_acted) other_.retire(seen);
      other_.retire(place);
      for (int i = 0; i < 5; i++) {
        advance(other_);
        mine.guard.checkpoint(place);
      }
      EXPECT_TRUE(place->is_alive()) << "interrupted at instruction " << at;
    }
    for (int i = 0; i < 5; i++) advance(other_);
    count_cases();
  }
  domain_.barrier();
  EXPECT_EQ(live_objects, 0);
}
#endif

template <class Structure>
class CheckpointWalk : public Checkpoints {
 protected:
  static constexpr int kNodes = 2000;

  void fill(int nodes = kNodes) {
    for (int i = nodes; i-- > 0;) set_.insert(Watched{i}, i);
  }

  // A walk over the nodes 0, 1, ... comes to the one where a section will begin. Another thread
  // erases it and the next one, so that the first leads to the second. As soon as the section has
  // begun, the second is freed, and `meanwhile` runs. The epoch is x at first: so the section that
  // begins x + 3 runs the deleter, and what `late` retires under x + 1 is freed at x + 4.
  template <class Walk, class Meanwhile>
  void erase_the_place(Walk walk, Meanwhile meanwhile) {
    static constexpr int kPlace = impl::kSectionSteps - 1;
    fill(200);
    Handle anchor = domain_.attach();
    Handle late = domain_.attach();
    std::optional<Pinned> anchors(anchor);
    int runs = 0;
    deleter_ = [&] {
      runs++;
      advance(other_);
      {
        const Pinned visit(late);
      }
      meanwhile();
    };
    walks_.retire(this, [](void*) noexcept { std::exchange(deleter_, nullptr)(); });
    advance(other_);
    std::optional<Pinned> erases(late);
    anchors.reset();
    advance(other_);
    bool is_erased = false;
    starts_ = 0;
    Watched::watch = [&](int number) {
      starts_ += number == 0 ? 1 : 0;
      if (number != kPlace || std::exchange(is_erased, true)) return;
      EXPECT_EQ(runs, 0);
      const int starts = starts_;
      for (const int key : {kPlace, kPlace + 1})
        EXPECT_TRUE(set_.erase(erases->guard, Watched{key}));
      starts_ = starts;
      erases.reset();
      advance(other_);
    };
    {
      Pinned mine(walks_);
      mine.guard.allow_checkpoints();
      walk(mine.guard);
    }
    Watched::watch = nullptr;
    EXPECT_EQ(runs, 1);
    EXPECT_TRUE(set_.check());
    count_cases();
  }

  // The key of the place is inserted again, and was visited.
  void ranges_pass_an_erased_place() {
    int last = -1;
    erase_the_place(
        [&](auto& guard) {
          set_.range(guard, Watched{0}, Watched{200}, [&](const Watched& key, int) {
            EXPECT_GT(key.number, last);
            last = key.number;
          });
        },
        [&] { set_.insert(Watched{impl::kSectionSteps - 1}, 0); });
    EXPECT_EQ(last, 199);
  }

  // A range visits each key that stays exactly once, in order, wherever nodes are erased. So many
  // epochs begin meanwhile, or more.
  void ranges_visit_what_stays_once(uint64_t least_epochs) {
    fill();
    const uint64_t before = epochs();
    int last = -1;
    int kept = 0;
    set_.range(Watched{0}, Watched{kNodes}, [&](const Watched& key, int) {
      EXPECT_GT(key.number, last);
      last = key.number;
      kept += key.number % 5 == 0 ? 1 : 0;
      auto guard = other_.pin();
      for (int i = last - 3; i <= last + 3; i++) {
        if (i % 5 != 0) set_.erase(guard, Watched{i});
      }
      guard.repin();
      advance(other_, 2);
    });
    EXPECT_EQ(kept, kNodes / 5);
    EXPECT_GE(epochs(), before + least_epochs);
    EXPECT_TRUE(set_.check());
    count_cases();
  }

  static inline std::function<void()> deleter_;
  int starts_ = 0;  // how often the last walk began
  Structure set_{domain_};
};

using List = list_set<Watched, int, Domain>;
using ListWalk = CheckpointWalk<List>;

TEST_F(ListWalk, ReadersLetEpochsEnd) {
  fill();
  const uint64_t before = epochs();
  long most = 0;
  Watched::watch = [&](int) {
    advance(other_, 1);
    most = std::max<long>(most, live_objects);
  };
  EXPECT_EQ(set_.find(Watched{kNodes - 1}), kNodes - 1);
  EXPECT_GE(epochs(), before + kNodes / 200);
  EXPECT_LE(most, 4 * 3 * 64);
  count_cases();
}

TEST_F(ListWalk, WritersLetEpochsEnd) {
  fill();
  const uint64_t before = epochs();
  Watched::watch = [&](int) { advance(other_, 1); };
  EXPECT_TRUE(set_.erase(Watched{kNodes - 1}));
  EXPECT_GE(epochs(), before + kNodes / 200);
  EXPECT_TRUE(set_.insert(Watched{kNodes - 1}, 7));
  EXPECT_GE(epochs(), before + 2 * kNodes / 200);
  Watched::watch = nullptr;
  EXPECT_EQ(set_.find(Watched{kNodes - 1}), 7);
  EXPECT_TRUE(set_.check());
  count_cases();
}

TEST_F(ListWalk, AGuardOfTheCallerKeepsWhatItReads) {
  fill();
  auto guard = walks_.pin();
  const uint64_t before = epochs();
  Watched::watch = [&](int) { advance(other_, 1); };
  EXPECT_EQ(set_.find(guard, Watched{kNodes - 1}), kNodes - 1);
  EXPECT_LE(epochs(), before + 1);
  guard.allow_checkpoints();
  EXPECT_EQ(set_.find(guard, Watched{kNodes - 1}), kNodes - 1);
  EXPECT_GE(epochs(), before + kNodes / 200);
  count_cases();
}

// Each node is erased when a walk is there, its neighbours as well, and the epoch moves on.
TEST_F(ListWalk, GoesOnWhereverNodesAreErased) {
  for (const int around : {0, 1, 2, 70}) {
    fill(500);
    bool is_busy = false;
    Watched::watch = [&](int number) {
      if (is_busy || number % 7 != 0 || number >= 499) return;
      is_busy = true;
      auto guard = other_.pin();
      for (int i = number - around; i <= number + around && i < 499; i++) {
        set_.erase(guard, Watched{i});
      }
      guard.repin();
      advance(other_, 4);
      is_busy = false;
    };
    EXPECT_EQ(set_.find(Watched{499}), 499);
    EXPECT_TRUE(set_.erase(Watched{499}));
    Watched::watch = nullptr;
    EXPECT_TRUE(set_.check());
    for (int i = 0; i < 500; i++) set_.erase(Watched{i});
    count_cases();
  }
}

TEST_F(ListWalk, DoesNotFollowAnErasedPlace) {
  const auto find = [&](auto& guard) { EXPECT_EQ(set_.find(guard, Watched{199}), 199); };
  erase_the_place(find, [] {});
  EXPECT_EQ(starts_, 1) << "the search read that the place was removed, and could pass it";
  for (int i = 0; i < 200; i++) set_.erase(Watched{i});
  const auto erase = [&](auto& guard) { EXPECT_TRUE(set_.erase(guard, Watched{199})); };
  erase_the_place(erase, [] {});
  EXPECT_EQ(starts_, 2);
}

TEST_F(ListWalk, RangesDoNotFollowAnErasedPlace) { ranges_pass_an_erased_place(); }

TEST_F(ListWalk, RangesGoOnWhereverNodesAreErased) {
  ranges_visit_what_stays_once(kNodes / 7 / 200);
}

struct CopiedKey {
  explicit CopiedKey(int its_number) : number(its_number) {}
  CopiedKey(const CopiedKey& other) : number(other.number) { copies++; }
  CopiedKey& operator=(const CopiedKey& other) {
    number = other.number;
    copies++;
    return *this;
  }
  ~CopiedKey() = default;
  bool operator<(const CopiedKey& other) const { return number < other.number; }
  static inline int copies = 0;
  int number;
};

// A walk reads keys where they are, unless it loses its place.
TEST_F(Checkpoints, VisitsCopyNoKeys) {
  list_set<CopiedKey, int, Domain> set(domain_);
  for (int i = 500; i-- > 0;) set.insert(CopiedKey(i), i);
  CopiedKey::copies = 0;
  const auto visit = [&](const CopiedKey&, int) { advance(other_, 1); };
  EXPECT_EQ(set.range(CopiedKey(0), CopiedKey(500), visit), 500u);
  EXPECT_LE(CopiedKey::copies, 1) << "one is the key at which the range begins";
  count_cases();
}

struct Version {
  Version() { live++; }
  Version(const Version& other) : number(other.number) { live++; }
  Version& operator=(const Version&) = delete;
  ~Version() { live--; }
  static inline int live = 0;
  int number = 0;
};

// What changes a version may walk with the same guard, while another thread replaces the version.
TEST_F(ListWalk, AnUpdateKeepsTheVersionThatItCopies) {
  fill();
  versioned<Version, Domain> value(domain_);
  {
    auto guard = walks_.pin();
    guard.allow_checkpoints();
    bool is_first = true;
    value.update(guard, [&](Version& next) {
      next.number++;
      if (!std::exchange(is_first, false)) return;
      EXPECT_EQ(Version::live, 2);
      {
        auto others = other_.pin();
        value.update(others, [](Version& each) { each.number += 10; });
      }
      Watched::watch = [&](int) { advance(other_, 1); };
      EXPECT_EQ(set_.find(guard, Watched{kNodes - 1}), kNodes - 1);
      Watched::watch = nullptr;
      EXPECT_EQ(Version::live, 3) << "its address may come back";
    });
  }
  EXPECT_EQ(value.get().number, 11);
  count_cases();
}

// What a visitor does with the guard does not end the section of the walk around it.
TEST_F(ListWalk, AVisitorMayUseTheGuard) {
  fill(500);
  auto guard = walks_.pin();
  guard.allow_checkpoints();
  int visited = 0;
  set_.range(guard, Watched{0}, Watched{500}, [&](const Watched& key, int) {
    advance(other_, 2);
    EXPECT_FALSE(guard.checkpoint());
    EXPECT_TRUE(set_.erase(guard, key));
    visited++;
  });
  EXPECT_EQ(visited, 500);
  EXPECT_EQ(set_.size(), 0u);
  count_cases();
}

// Keys that are multiples of 8 stay while two threads erase and insert the others; a third and a
// fourth walk. Some walk sees two epochs begin: it has made a checkpoint.
template <class Set>
void walk_among_writers() {
  constexpr int kKeys = 1000;
  Domain domain(hasty());
  Set set(domain);
  for (int i = kKeys; i-- > 0;) set.insert(i, i);
  std::atomic<int> walking{2};
  const auto write = [&](uint32_t seed) {
    for (uint32_t dice = seed; walking > 0;) {
      dice = dice * 1664525 + 1013904223;
      const auto key = static_cast<int>((dice >> 8) % kKeys);
      if (key % 8 == 0) continue;
      if ((dice & 128) != 0) {
        set.erase(key);
      } else {
        set.insert(key, key);
      }
    }
  };
  std::atomic<bool> is_asked{false};
  const auto walk = [&](bool by_range) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const auto is_late = [&] { return std::chrono::steady_clock::now() > end; };
    for (size_t round = 0; round < scaled(200) || (!is_asked && !is_late()); round++) {
      auto guard = domain.pin();
      guard.allow_checkpoints();
      if (!by_range) {
        EXPECT_EQ(set.find(guard, kKeys - 8), kKeys - 8);
        EXPECT_EQ(set.find(guard, kKeys), std::nullopt);
        continue;
      }
      int last = -1;
      int stayed = 0;
      uint64_t epoch = 0;
      set.range(guard, 0, kKeys, [&](int key, int value) {
        if (epoch == 0) epoch = domain.collect().epochs;
        EXPECT_EQ(key, value);
        EXPECT_GT(key, last);
        last = key;
        stayed += key % 8 == 0 ? 1 : 0;
      });
      EXPECT_EQ(stayed, kKeys / 8);
      if (domain.collect().epochs >= epoch + 2) is_asked = true;
    }
    walking--;
  };
  std::thread threads[] = {std::thread(write, 1), std::thread(write, 2), std::thread(walk, false),
                           std::thread(walk, true)};
  for (std::thread& each : threads) each.join();
  EXPECT_TRUE(set.check());
  EXPECT_TRUE(is_asked);
  count_cases();
}

TEST(CheckpointThreads, WalkInAList) { walk_among_writers<list_set<int, int, Domain>>(); }
TEST(CheckpointThreads, WalkInASkipList) { walk_among_writers<skip_list<int, int, Domain>>(); }

// Operations that meet a few nodes, under one guard.
template <class Structure>
class CheckpointsOf : public Checkpoints {
 protected:
  Structure structure_{domain_};
};
using Structures = testing::Types<list_set<int, int, Domain>, hash_map<int, int, Domain>,
                                  skip_list<int, int, Domain>, abtree<int, int, Domain>,
                                  occtree<int, int, Domain>>;
TYPED_TEST_SUITE(CheckpointsOf, Structures);

TYPED_TEST(CheckpointsOf, ShortOperationsLetEpochsEnd) {
  this->structure_.insert(1, 10);
  auto guard = this->walks_.pin();
  const uint64_t before = this->epochs();
  const auto work = [&] {
    for (int i = 0; i < 100; i++) {
      EXPECT_EQ(this->structure_.find(guard, 1), 10);
      advance(this->other_, 2);
    }
  };
  work();
  EXPECT_LE(this->epochs(), before + 1);
  guard.allow_checkpoints();
  work();
  EXPECT_GE(this->epochs(), before + 10);
  count_cases();
}

using Map = hash_map<int, int, Domain>;
using SkipListWalk = CheckpointWalk<skip_list<Watched, int, Domain>>;

// As the list's: each element that stays is visited once.
TEST_F(Checkpoints, VisitsOfAHashMapLetEpochsEnd) {
  Map map(domain_);
  for (int i = 0; i < 2000; i++) map.insert(i, i);
  const uint64_t before = epochs();
  std::vector<int> visits(2000);
  map.visit([&](int key, int) {
    visits[static_cast<size_t>(key)]++;
    auto guard = other_.pin();
    for (int i = key - 3; i <= key + 3; i++) {
      if (i % 5 != 0) map.erase(guard, i);
    }
    guard.repin();
    advance(other_, 2);
  });
  for (int i = 0; i < 2000; i++) {
    const int visited = visits[static_cast<size_t>(i)];
    EXPECT_LE(visited, 1) << i;
    EXPECT_TRUE(visited == 1 || i % 5 != 0) << i;
  }
  EXPECT_GE(epochs(), before + 2);
  EXPECT_TRUE(map.check());
  count_cases();
}

// The node to which a visit goes next was replaced, whichever node that is.
TEST_F(Checkpoints, VisitsOfAHashMapFindWhatWasReplaced) {
  constexpr int kKeys = 500;
  for (int when = 0; when < kKeys; when++) {
    Map map(domain_);
    for (int i = 0; i < kKeys; i++) map.insert(i, 0);
    std::vector<int> visits(kKeys);
    int visited = 0;
    map.visit([&](int key, int) {
      visits[static_cast<size_t>(key)]++;
      if (visited++ != when) return;
      auto guard = other_.pin();
      for (int i = 0; i < kKeys; i++) map.upsert(guard, i, 1);
    });
    EXPECT_EQ(visits, std::vector<int>(kKeys, 1)) << "replaced at visit " << when;
  }
  count_cases();
}

TEST_F(SkipListWalk, RangesDoNotFollowAnErasedPlace) { ranges_pass_an_erased_place(); }

TEST_F(SkipListWalk, RangesLetEpochsEnd) { ranges_visit_what_stays_once(2); }

}  // namespace
}  // namespace near_test

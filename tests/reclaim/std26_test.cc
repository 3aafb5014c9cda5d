// std26: what the C++26 draft's <hazard_pointer> and <rcu> promise at run time. The types are
// checked in std26_conformance_test.cc.
#include "nearmalloc/reclaim/std26.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "every_scheme.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

namespace safe = near::reclaim::std26;

struct Node : CountedObject, safe::hazard_pointer_obj_base<Node> {};
struct Entry : CountedObject, safe::rcu_obj_base<Entry> {};

// Retires enough for a look at every hazard pointer.
void retire_many() {
  for (int i = 0; i < 4000; i++) (new Node)->retire();
}

class Std26Hazard : public testing::Test {
 protected:
  Std26Hazard() {
    near::reclaim::impl::std26_hazards().barrier();
    live_objects = 0;
    count_cases();
  }
};

TEST_F(Std26Hazard, IsEmptyUntilItIsMade) {
  safe::hazard_pointer empty;
  EXPECT_TRUE(empty.empty());
  safe::hazard_pointer made = safe::make_hazard_pointer();
  EXPECT_FALSE(made.empty());
  safe::hazard_pointer taken(std::move(made));
  EXPECT_FALSE(taken.empty());
  EXPECT_TRUE(made.empty());  // NOLINT: the draft says so
  made = std::move(taken);
  EXPECT_FALSE(made.empty());
  EXPECT_TRUE(taken.empty());  // NOLINT
  safe::hazard_pointer& same = made;
  made = std::move(same);
  EXPECT_FALSE(made.empty());
  made.swap(empty);
  EXPECT_TRUE(made.empty());
  swap(made, empty);
  EXPECT_FALSE(made.empty());
}

TEST_F(Std26Hazard, TryProtectReportsTheSource) {
  Node first;
  Node second;
  std::atomic<Node*> source{&first};
  safe::hazard_pointer holder = safe::make_hazard_pointer();
  Node* seen = &second;
  EXPECT_FALSE(holder.try_protect(seen, source));
  EXPECT_EQ(seen, &first);
  EXPECT_TRUE(holder.try_protect(seen, source));
  EXPECT_EQ(seen, &first);
  source = nullptr;
  EXPECT_EQ(holder.protect(source), nullptr);
}

// Whether an object that some holder protects lives on after `change` to the holder.
template <class Change>
bool outlives(Change change) {
  static std::atomic<bool> is_destroyed;
  struct Marked : safe::hazard_pointer_obj_base<Marked> {
    ~Marked() { is_destroyed = true; }
  };
  is_destroyed = false;
  std::atomic<Marked*> source{new Marked};
  safe::hazard_pointer holder = safe::make_hazard_pointer();
  holder.protect(source);
  std::thread([&] { source.exchange(nullptr)->retire(); }).join();
  change(holder);
  std::thread(retire_many).join();
  return !is_destroyed;
}

TEST_F(Std26Hazard, ProtectsUntilItIsChanged) {
  const std::atomic<Node*> nothing{nullptr};
  Node other;
  safe::hazard_pointer room;
  EXPECT_TRUE(outlives([](safe::hazard_pointer&) {}));
  EXPECT_TRUE(outlives([&](safe::hazard_pointer& holder) { room = std::move(holder); }));
  EXPECT_TRUE(outlives([&](safe::hazard_pointer& holder) { room.swap(holder); }));
  room.reset_protection();
  EXPECT_FALSE(outlives([](safe::hazard_pointer& holder) { holder.reset_protection(); }));
  EXPECT_FALSE(outlives([](safe::hazard_pointer& holder) { holder.reset_protection(nullptr); }));
  EXPECT_FALSE(outlives([&](safe::hazard_pointer& holder) { holder.reset_protection(&other); }));
  EXPECT_FALSE(outlives([&](safe::hazard_pointer& holder) { holder.protect(nothing); }));
  EXPECT_FALSE(outlives([](safe::hazard_pointer& holder) { holder = safe::hazard_pointer(); }));
}

// A failed try_protect ends the protection, and protects nothing.
TEST_F(Std26Hazard, AFailedAttemptProtectsNothing) {
  Node other;
  std::atomic<Node*> source{&other};
  EXPECT_FALSE(outlives([&](safe::hazard_pointer& holder) {
    Node* wrong = nullptr;
    EXPECT_FALSE(holder.try_protect(wrong, source));
  }));
}

// A holder that a thread made, which has ended since, protects on; and hundreds of them do.
TEST_F(Std26Hazard, BelongsToNoThreadAndHasNoMost) {
  constexpr size_t kHolders = 600;
  live_objects = 0;
  std::vector<std::atomic<Node*>> sources(kHolders);
  for (auto& each : sources) each = new Node;
  std::vector<safe::hazard_pointer> holders(kHolders);
  std::thread([&] {
    for (size_t i = 0; i < kHolders; i++) {
      holders[i] = safe::make_hazard_pointer();
      EXPECT_TRUE(holders[i].protect(sources[i])->is_alive());
    }
  }).join();
  std::vector<Node*> nodes;
  for (auto& each : sources) {
    nodes.push_back(each.exchange(nullptr));
    nodes.back()->retire();
  }
  retire_many();
  for (const Node* each : nodes) EXPECT_TRUE(each->is_alive());
  holders.clear();
  std::thread(retire_many).join();
  EXPECT_LT(live_objects, 4000L + static_cast<long>(kHolders));
}

// Holders come and go: their slots are used again.
TEST_F(Std26Hazard, SlotsAreReused) {
  const auto& core = near::reclaim::impl::Unguarded::core(near::reclaim::impl::std26_hazards());
  const auto slots = [&] {
    size_t number = 0;
    for (auto* each = core.loose_slots.load(); each != nullptr; each = each->next) number++;
    return number;
  };
  const auto use_some = [] {
    std::vector<safe::hazard_pointer> some(30);
    for (auto& each : some) each = safe::make_hazard_pointer();
  };
  std::thread(use_some).join();
  const size_t before = slots();
  for (int i = 0; i < 100; i++) std::thread(use_some).join();
  for (int i = 0; i < 100; i++) use_some();
  EXPECT_LE(slots(), before + 30);
}

struct CountingDeleter {
  std::atomic<int>* calls = nullptr;
  void operator()(auto* object) const {
    ++*calls;
    delete object;
  }
};

TEST_F(Std26Hazard, AStatefulDeleterIsCalledOnceWithTheObject) {
  struct Object : CountedObject, safe::hazard_pointer_obj_base<Object, CountingDeleter> {};
  std::atomic<int> calls{0};
  for (int i = 0; i < 4000; i++) (new Object)->retire(CountingDeleter{&calls});
  std::thread(retire_many).join();
  near::reclaim::impl::std26_hazards().barrier();
  EXPECT_EQ(calls, 4000);
}

// Threads protect, replace and retire; a protected node is alive. Holders move between threads.
TEST_F(Std26Hazard, ProtectedNodesAreAlive) {
  const size_t rounds = scaled(30'000);
  std::atomic<Node*> sources[4];
  for (auto& each : sources) each = new Node;
  std::mutex lock;
  safe::hazard_pointer shared = safe::make_hazard_pointer();
  run_threads(4, [&](size_t number) {
    safe::hazard_pointer own = safe::make_hazard_pointer();
    for (size_t i = 0; i < rounds; i++) {
      auto& source = sources[(i + number) % 4];
      if (number < 2) {
        Node* old = source.exchange(new Node);
        old->retire();
      }
      EXPECT_TRUE(own.protect(source)->is_alive());
      if (i % 64 == 0) {
        const std::scoped_lock guard(lock);
        own.swap(shared);
        own.protect(source);
      }
      if (i % 100 == 0) own = safe::make_hazard_pointer();
    }
  });
  shared.reset_protection();
  for (auto& each : sources) each.exchange(nullptr)->retire();
  near::reclaim::impl::std26_hazards().barrier();
  EXPECT_EQ(live_objects, 0);
}

class Std26Rcu : public testing::Test {
 protected:
  Std26Rcu() {
    safe::rcu_barrier();
    live_objects = 0;
    count_cases();
  }
  ~Std26Rcu() override {
    safe::rcu_barrier();
    EXPECT_EQ(live_objects, 0);
  }
};

TEST_F(Std26Rcu, RegionsNestAndKeepWhatWasRetired) {
  safe::rcu_domain& domain = safe::rcu_default_domain();
  EXPECT_EQ(&domain, &safe::rcu_default_domain());
  auto* entry = new Entry;
  std::atomic<bool> is_held{false};
  std::atomic<bool> may_end{false};
  std::thread reader([&] {
    domain.lock();
    EXPECT_TRUE(domain.try_lock());
    domain.lock();
    domain.unlock();
    domain.unlock();
    is_held = true;  // still in the outermost region
    while (!may_end) std::this_thread::yield();
    EXPECT_TRUE(entry->is_alive());
    domain.unlock();
  });
  while (!is_held) std::this_thread::yield();
  entry->retire();
  for (int i = 0; i < 5000; i++) (new Entry)->retire();
  EXPECT_TRUE(entry->is_alive());
  may_end = true;
  reader.join();
  safe::rcu_barrier();
  EXPECT_EQ(live_objects, 0);
}

TEST_F(Std26Rcu, SynchronizeWaitsForTheRegion) {
  std::atomic<bool> is_held{false};
  std::atomic<bool> has_ended{false};
  std::thread reader([&] {
    const std::scoped_lock region(safe::rcu_default_domain());
    is_held = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    has_ended = true;
  });
  while (!is_held) std::this_thread::yield();
  safe::rcu_synchronize();
  EXPECT_TRUE(has_ended);
  reader.join();
}

// A reader may copy an entry while another thread retires it: an update begins so.
TEST_F(Std26Rcu, ReadersCopyWhatIsBeingRetired) {
  struct Copied : safe::rcu_obj_base<Copied> {
    int number = 1;
  };
  std::atomic<Copied*> current{new Copied};
  std::atomic<size_t> copies{0};
  const size_t enough = scaled(10'000);
  run_threads(3, [&](size_t thread) {
    for (; copies < enough; copies += thread == 0 ? 0 : 1) {
      if (thread == 0) {
        current.exchange(new Copied)->retire();
        continue;
      }
      const std::scoped_lock region(safe::rcu_default_domain());
      const Copied* const seen = current.load();
      std::this_thread::yield();  // for the writer
      const auto copy = std::make_unique<Copied>(*seen);
      asm volatile("" : : "r"(copy.get()) : "memory");  // it is made
      EXPECT_EQ(copy->number, 1);
    }
  });
  current.load()->retire();
}

// What rcu_retire takes: no deleter, a stateful one, a lambda, a function, one that moves only, a
// constant object, and null.
TEST_F(Std26Rcu, RetireTakesAnyDeleter) {
  static std::atomic<int> calls;
  calls = 0;
  safe::rcu_retire(new CountedObject);
  safe::rcu_retire(new CountedObject, [](CountedObject* object) {
    calls++;
    delete object;
  });
  int number = 7;
  safe::rcu_retire(new CountedObject, [&number](CountedObject* object) {
    number++;
    delete object;
  });
  safe::rcu_retire(new CountedObject, +[](CountedObject* object) { delete object; });
  safe::rcu_retire(&number, [owned = std::make_unique<CountedObject>()](int*) { calls++; });
  safe::rcu_retire(static_cast<const CountedObject*>(new CountedObject));
  safe::rcu_retire(static_cast<CountedObject*>(nullptr));
  safe::rcu_barrier();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(number, 8);
  EXPECT_EQ(live_objects, 0);
}

// If the deleter's move throws, nothing is retired.
TEST_F(Std26Rcu, AThrowingMoveRetiresNothing) {
  struct Throwing {
    Throwing() = default;
    Throwing(Throwing&&) { throw std::runtime_error("moved"); }
    void operator()(CountedObject* object) const { delete object; }
    int state = 0;
  };
  CountedObject object;
  EXPECT_THROW((safe::rcu_retire<CountedObject, Throwing>(&object)), std::runtime_error);
  safe::rcu_barrier();
  EXPECT_TRUE(object.is_alive());
}

// The draft lets deleters run in `unlock` and `retire`, not in `lock`: a program may hold what a
// deleter locks.
TEST_F(Std26Rcu, NoDeleterRunsInLock) {
  static std::atomic<bool> is_locking;
  static std::atomic<int> calls;
  static std::atomic<int> wrong;
  is_locking = false;
  wrong = calls = 0;
  safe::rcu_domain& domain = safe::rcu_default_domain();
  for (int i = 0; i < 20'000; i++) {
    is_locking = true;
    domain.lock();
    is_locking = false;
    domain.unlock();
    safe::rcu_retire(new char, [](char* object) {
      if (is_locking) wrong++;
      calls++;
      delete object;
    });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(calls, 0);
}

// Deleters may lock, retire and wait for readers.
TEST_F(Std26Rcu, DeletersUseTheDomain) {
  static std::atomic<int> calls;
  calls = 0;
  for (int i = 0; i < 3000; i++) {
    safe::rcu_retire(new int(i), [](const int* object) {
      const std::scoped_lock region(safe::rcu_default_domain());
      (new Entry)->retire();
      calls++;
      delete object;
    });
  }
  safe::rcu_retire(new int, [](const int* object) {
    safe::rcu_synchronize();
    calls++;
    delete object;
  });
  safe::rcu_barrier();
  EXPECT_EQ(calls, 3001);
}

TEST_F(Std26Rcu, ReadersSeeLivingEntries) {
  const size_t rounds = scaled(30'000);
  std::atomic<Entry*> sources[4];
  for (auto& each : sources) each = new Entry;
  run_threads(4, [&](size_t number) {
    for (size_t i = 0; i < rounds; i++) {
      auto& source = sources[(i + number) % 4];
      if (number < 2) source.exchange(new Entry)->retire();
      if (number == 0 && i % 4096 == 0) safe::rcu_synchronize();
      if (number == 1 && i % 4096 == 0) safe::rcu_barrier();
      const std::scoped_lock region(safe::rcu_default_domain());
      const std::unique_lock inner(safe::rcu_default_domain());
      EXPECT_TRUE(source.load()->is_alive());
    }
  });
  for (auto& each : sources) each.exchange(nullptr)->retire();
}

class Std26DeathTest : public testing::Test {
 protected:
  void SetUp() override {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    count_cases();
  }
};

TEST_F(Std26DeathTest, AnEmptyHazardPointerIsUsed) {
  const std::atomic<Node*> source{nullptr};
  safe::hazard_pointer empty;
  EXPECT_DEATH(empty.protect(source), "an empty hazard_pointer is used");
  EXPECT_DEATH(empty.reset_protection(), "an empty hazard_pointer is used");
}

TEST_F(Std26DeathTest, UnlockWithoutLock) {
  EXPECT_DEATH(safe::rcu_default_domain().unlock(), "by a thread that is in no region");
  EXPECT_DEATH(
      { std::thread([] { safe::rcu_default_domain().unlock(); }).join(); },
      "by a thread that is in no region");
}

TEST_F(Std26DeathTest, AThreadWaitsForItself) {
  EXPECT_DEATH(
      {
        const std::scoped_lock region(safe::rcu_default_domain());
        safe::rcu_synchronize();
      },
      "synchronize by a thread that is pinned");
  EXPECT_DEATH(
      {
        const std::scoped_lock region(safe::rcu_default_domain());
        safe::rcu_barrier();
      },
      "barrier by a thread that is pinned");
  EXPECT_DEATH(
      {
        safe::rcu_retire(new int, [](const int*) { safe::rcu_barrier(); });
        safe::rcu_barrier();
      },
      "barrier by a thread that is pinned, or frees");
}

}  // namespace
}  // namespace near_test

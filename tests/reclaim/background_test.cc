// The background reclaimer, and domain::reclaim_all, under every scheme.
#include "nearmalloc/reclaim/background.hpp"

#include <atomic>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>

#include "every_scheme.h"
#include "support/cases.h"
#include "support/forked.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace near::reclaim;
using namespace std::chrono_literals;

template <class Condition>
bool happens(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  return condition();
}

std::atomic<long> freed_by_operations{0};
thread_local bool is_worker = false;

// Counts itself if it is freed in a thread that uses the domain for its own purposes.
struct Traced : CountedObject {
  ~Traced() {
    if (is_worker) freed_by_operations++;
  }
};

options by_hand(size_t batch = 16) {
  options settings;
  settings.reclaim = policy::manual();
  settings.batch_size = batch;
  return settings;
}

template <class Scheme>
class BackgroundTest : public testing::Test {
 protected:
  BackgroundTest() { freed_by_operations = live_objects = 0; }
  ~BackgroundTest() override { EXPECT_EQ(live_objects, 0); }

  static void report(domain<Scheme>& home) {
    if constexpr (impl::HasReports<Scheme>) home.quiescent();
  }
  // Retires so many objects, in small operations.
  static void retire_many(domain<Scheme>& home, int objects) {
    for (int i = 0; i < objects; i++) {
      home.pin().retire(new Traced);
      report(home);
    }
  }
};
using AllSchemes =
    testing::Types<debra<announce::before_free>, debra<announce::after_free>, qsbr,
                   token<pass::after_free>, token<pass::before_free>, token<pass::while_freeing>,
                   checkpoints, hazard_pointers, ping_epochs, ibr, hyaline>;
TYPED_TEST_SUITE(BackgroundTest, AllSchemes);

TYPED_TEST(BackgroundTest, FreesWhatOperationsRetireWhileTheyFreeNothing) {
  // More than all objects: else a worker that the system suspends for long could find more waiting
  // than a robust scheme allows, and free it itself.
  domain<TypeParam> home(by_hand(1'000));
  background_reclaimer<TypeParam> reclaimer(home);
  run_threads(3, [&](size_t) {
    is_worker = true;
    for (int round = 0; round < 10; round++) {
      TestFixture::retire_many(home, 20);
      std::this_thread::sleep_for(2ms);
      TestFixture::report(home);
    }
  });
  EXPECT_TRUE(happens([] { return live_objects == 0; })) << live_objects << " are left";
  EXPECT_EQ(freed_by_operations, 0);
  count_cases();
}

// The thread that retired stays attached and does nothing.
TYPED_TEST(BackgroundTest, FreesTheLastObjectOfAThreadThatIsIdle) {
  domain<TypeParam> home(by_hand(1'000'000));
  background_reclaimer<TypeParam> reclaimer(home);
  TestFixture::retire_many(home, 1);
  EXPECT_TRUE(happens([&] {
    TestFixture::report(home);
    return live_objects == 0;
  }));
  count_cases();
}

TYPED_TEST(BackgroundTest, EndsAtOnceAndLeavesWhatWaitsToTheDomain) {
  domain<TypeParam> home(by_hand());
  for (int i = 0; i < 50; i++) {
    background_reclaimer<TypeParam> reclaimer(home);
    TestFixture::retire_many(home, i);
    if (i % 10 == 0) std::this_thread::sleep_for(5ms);
  }
  TestFixture::retire_many(home, 3);
  EXPECT_GE(home.collect().unreclaimed, 3u);
  home.barrier();
  EXPECT_EQ(home.collect().unreclaimed, 0u);
  EXPECT_EQ(home.collect().lost, 0u);
  count_cases();
}

// Its memory is used again, so what it says of itself when it is gone means nothing.
struct Witness : CountedObject {
  explicit Witness(std::atomic<bool>& flag) : is_gone(flag) {}
  ~Witness() { is_gone = true; }
  std::atomic<bool>& is_gone;
};

// What a reader may see stays, however often the reclaimer looks.
TYPED_TEST(BackgroundTest, KeepsWhatAReaderHolds) {
  domain<TypeParam> home(by_hand());
  background_reclaimer<TypeParam> reclaimer(home);
  std::atomic<bool> is_gone{false};
  near::Atomic<Witness*> source(new Witness(is_gone));
  {
    auto guard = home.pin();
    const Witness* const seen = guard.protect(0, source);
    std::thread([&] {
      home.pin().retire(source.exchange(nullptr));
      TestFixture::report(home);
    }).join();
    for (int i = 0; i < 50; i++) {
      std::thread([&] { TestFixture::retire_many(home, 5); }).join();
      ASSERT_FALSE(is_gone);
      ASSERT_TRUE(seen->is_alive());
    }
    std::this_thread::sleep_for(10ms);
    EXPECT_FALSE(is_gone);
  }
  EXPECT_TRUE(happens([&] {
    TestFixture::report(home);
    return live_objects == 0;
  }));
  count_cases();
}

// The most objects that lived at once. The thread that frees a Latecomer waits for kEnough of them.
std::atomic<long> most_lived{0};
constexpr long kEnough = 500;
struct Latecomer : CountedObject {
  ~Latecomer() {
    EXPECT_TRUE(happens([] { return most_lived > kEnough; }));
  }
};

TYPED_TEST(BackgroundTest, KeepsTheLimitOfBytesOfThreadsThatWait) {
  options settings = by_hand(1'000'000);
  settings.max_unreclaimed_bytes = 1'000 * sizeof(Traced);
  settings.when_full = at_limit::block;
  domain<TypeParam> home(settings);
  background_reclaimer<TypeParam> reclaimer(home);
  most_lived = 0;
  run_threads(3, [&](size_t thread) {
    if (thread == 0) home.pin().retire(new Latecomer);
    for (int i = 0; i < 3000; i++) {
      TestFixture::retire_many(home, 1);
      const long now = live_objects;
      long before = most_lived;
      while (before < now && !most_lived.compare_exchange_weak(before, now)) {
      }
    }
  });
  EXPECT_LE(most_lived, 1'000 + 2 * 4);
  EXPECT_GT(most_lived, kEnough);
  EXPECT_TRUE(happens([] { return live_objects == 0; }));
  count_cases();
}

TYPED_TEST(BackgroundTest, DeletersRetireInItsThread) {
  struct Parent {
    domain<TypeParam>& home;
    int left;
    CountedObject counted{};
    ~Parent() {
      if (left > 0) home.retire(new Parent{home, left - 1});
    }
  };
  domain<TypeParam> home(by_hand());
  background_reclaimer<TypeParam> reclaimer(home);
  home.retire(new Parent{home, 20});
  EXPECT_TRUE(happens([&] {
    TestFixture::report(home);
    return live_objects == 0;
  }));
  count_cases();
}

TYPED_TEST(BackgroundTest, AForkedChildMakesItsOwn) {
  domain<TypeParam> home(by_hand());
  std::optional<background_reclaimer<TypeParam>> reclaimer(home);
  for (int i = 0; i < 5; i++) {
    TestFixture::retire_many(home, 10);
    const int status = run_in_child([&] {
      reclaimer.emplace(home);
      TestFixture::retire_many(home, 100);
      const bool good = happens([&] {
        TestFixture::report(home);
        return home.collect().unreclaimed == 0;
      });
      reclaimer.reset();
      return good ? 0 : 1;
    });
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(happens([&] {
    TestFixture::report(home);
    return live_objects == 0;
  }));
  count_cases();
}

TYPED_TEST(BackgroundTest, AThreadOfTheProgramReclaimsForAll) {
  domain<TypeParam> home(by_hand(1'000'000));
  std::thread([&] {
    is_worker = true;
    TestFixture::retire_many(home, 100);
  }).join();
  auto idle = home.attach();
  {
    idle.pin().retire(new Traced);
  }
  if constexpr (impl::HasReports<TypeParam>) idle.quiescent();
  size_t freed = 0;
  for (int i = 0; i < 100 && live_objects > 0; i++) {
    freed += home.reclaim_all();
    if constexpr (impl::HasReports<TypeParam>) idle.quiescent();
  }
  EXPECT_EQ(live_objects, 0);
  EXPECT_EQ(freed, 101u);
  EXPECT_EQ(freed_by_operations, 0);
  EXPECT_EQ(home.reclaim_all(), 0u);
  count_cases();
}

TEST(BackgroundDeathTest, RefusesASecondOneAndAnEndByItsOwnDeleter) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        domain<debra<>> home;
        const background_reclaimer<debra<>> first(home);
        const background_reclaimer<debra<>> second(home);
      },
      "two background reclaimers");
  EXPECT_DEATH(
      {
        domain<debra<>> home;
        auto* const reclaimer = new background_reclaimer<debra<>>(home);
        home.retire(static_cast<void*>(reclaimer), [](void* object) noexcept {
          delete static_cast<background_reclaimer<debra<>>*>(object);
        });
        std::this_thread::sleep_for(60s);
      },
      "ended by a deleter");
  EXPECT_DEATH(
      {
        domain<debra<>> home;
        auto guard = home.pin();
        home.reclaim_all();
      },
      "reclaim_all by a thread that is pinned");
  count_cases(3);
}

}  // namespace
}  // namespace near_test

// Domains under every scheme: guards, retirement, grace periods, threads that come and go, misuse.
#include "nearmalloc/reclaim/domain.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <semaphore>
#include <thread>
#include <vector>

#include "base/compiler.h"
#include "support/cases.h"
#include "support/forked.h"
#include "support/parallel.h"

namespace near::reclaim {
namespace {

std::atomic<long> live{0};

struct Counted {
  Counted() { live++; }
  ~Counted() { live--; }
  Counted* next = nullptr;
};

class Domain : public testing::Test {
 protected:
  void SetUp() override {
    live = 0;
    near_test::count_cases();
  }
};

template <class Scheme>
class DomainTest : public Domain {};
using DomainDeathTest = Domain;

using Schemes =
    testing::Types<debra<announce::before_free>, debra<announce::after_free>,
                   token<pass::after_free>, token<pass::before_free>, token<pass::while_freeing>,
                   checkpoints, hazard_pointers, ping_epochs, ibr, hyaline>;
TYPED_TEST_SUITE(DomainTest, Schemes);

options every_policy(policy how) {
  options settings;
  settings.reclaim = how;
  settings.batch_size = 8;
  return settings;
}

constexpr policy kPolicies[] = {policy::batch(),    policy::amortized(), policy::amortized(4, 2),
                                policy::adaptive(), policy::budget(500), policy::manual()};

TYPED_TEST(DomainTest, WhatIsRetiredIsDestroyedOnceAndByTheEndOfTheDomain) {
  for (const policy& how : kPolicies) {
    {
      domain<TypeParam> domain(every_policy(how));
      auto handle = domain.attach();
      for (int i = 0; i < 5000; i++) handle.pin().retire(new Counted);
      const statistics sums = domain.collect();
      EXPECT_EQ(sums.retired, 5000u);
      EXPECT_EQ(sums.lost, 0u);
      EXPECT_EQ(live, static_cast<long>(sums.retired - sums.freed));
    }
    EXPECT_EQ(live, 0);
  }
}

TYPED_TEST(DomainTest, AThreadAloneFreesWhatItRetiresWhilePinningGoesOn) {
  domain<TypeParam> domain(every_policy(policy::adaptive()));
  auto handle = domain.attach();
  for (int i = 0; i < 100'000; i++) handle.pin().retire(new Counted);
  EXPECT_LT(live, 2000);
}

TYPED_TEST(DomainTest, ManualFreesOnlyWhenAsked) {
  if (TypeParam::traits.scheme >= impl::Scheme::hazards) return;  // keeps its bound instead
  domain<TypeParam> domain(every_policy(policy::manual()));
  auto handle = domain.attach();
  for (int i = 0; i < 1000; i++) handle.pin().retire(new Counted);
  EXPECT_EQ(live, 1000);
  ASSERT_GT(handle.waiting(), 10u);
  EXPECT_EQ(handle.reclaim(10), 10u);
  EXPECT_EQ(live, 990);
}

TYPED_TEST(DomainTest, AnObjectOutlivesAGuardThatProtectsIt) {
  domain<TypeParam> domain(every_policy(policy::batch()));
  std::atomic<Counted*> source = new Counted;
  auto reader = domain.attach();
  Counted* seen = nullptr;
  {
    auto outer = reader.pin();
    auto guard = reader.pin();  // nested
    seen = guard.protect(3, source);
    std::thread([&] {
      domain.retire(source.exchange(nullptr));
      for (int i = 0; i < 3000; i++) domain.retire(new Counted);
    }).join();
    EXPECT_GE(live, 1);
    EXPECT_EQ(seen->next, nullptr);  // ASan sees it if it is gone
  }
  domain.barrier();
  EXPECT_EQ(live, 0);
}

TYPED_TEST(DomainTest, BarrierFreesWhatIdleThreadsRetired) {
  domain<TypeParam> domain(every_policy(policy::amortized()));
  std::binary_semaphore retired{0};
  std::binary_semaphore done{0};
  std::thread idle([&] {
    auto handle = domain.attach();
    for (int i = 0; i < 100; i++) handle.pin().retire(new Counted);
    for (int i = 0; i < 100; i++) domain.retire(new Counted);
    retired.release();
    done.acquire();  // attached, and does nothing
    handle.pin().retire(new Counted);
  });
  retired.acquire();
  domain.barrier();
  EXPECT_EQ(live, 0);
  done.release();
  idle.join();
  domain.barrier();
  EXPECT_EQ(live, 0);
}

TYPED_TEST(DomainTest, BarriersRunBesideRetirements) {
  domain<TypeParam> domain(every_policy(policy::adaptive()));
  std::atomic<bool> stop{false};
  near_test::Threads threads(3, [&](size_t) {
    while (!stop) {
      for (int i = 0; i < 20; i++) domain.retire(new Counted);
      if (auto handle = domain.attach(); !stop) handle.pin().retire(new Counted);
    }
  });
  const auto rounds = static_cast<int>(near_test::scaled(200));
  for (int i = 0; i < rounds; i++) domain.barrier();
  stop = true;
  threads.join();
  domain.barrier();
  EXPECT_EQ(live, 0);
  EXPECT_EQ(domain.collect().unreclaimed, 0u);
}

struct Chained {
  Chained(domain<debra<>>& its_domain, int its_depth) : home(its_domain), depth(its_depth) {
    live++;
  }
  ~Chained() {
    live--;
    if (depth > 0) home.retire(new Chained(home, depth - 1));
  }
  domain<debra<>>& home;
  int depth;
};

TEST_F(Domain, DeletersMayRetire) {
  for (const policy& how : kPolicies) {
    {
      domain<debra<>> domain(every_policy(how));
      for (int i = 0; i < 50; i++) domain.retire(new Chained(domain, 20));
    }
    EXPECT_EQ(live, 0);
  }
}

TYPED_TEST(DomainTest, ThreadsComeAndGo) {
  const auto threads = static_cast<int>(near_test::scaled(2000));
  near_test::count_cases(3 * near_test::scaled(2000));
  domain<TypeParam> domain(every_policy(policy::adaptive()));
  for (int i = 0; i < threads; i++) {
    std::thread one([&] {
      auto handle = domain.attach();
      handle.pin().retire(new Counted);
      domain.retire(new Counted);
    });
    std::thread two([&] { domain.retire(new Counted); });
    one.join();
    two.join();
  }
  const statistics sums = domain.collect();
  EXPECT_EQ(sums.threads, 0u);
  EXPECT_LE(sums.records, 8u);
  EXPECT_EQ(sums.retired, 3u * static_cast<unsigned>(threads));
  domain.barrier();
  EXPECT_EQ(live, 0);
}

TYPED_TEST(DomainTest, WhatAThreadLeavesIsAdoptedByTheOthers) {
  domain<TypeParam> domain(every_policy(policy::batch()));
  std::thread([&] {
    for (int i = 0; i < 100; i++) domain.retire(new Counted);
  }).join();
  std::thread([&] {
    auto first = domain.attach();  // the record that the thread left
    auto handle = domain.attach();
    for (int i = 0; i < 20'000; i++) handle.pin().retire(new Counted);
  }).join();
  EXPECT_LT(live, 500);
}

TYPED_TEST(DomainTest, OfflineThreadsHoldNobodyUpAndLeaveTheirObjects) {
  domain<TypeParam> domain(every_policy(policy::batch()));
  auto idle = domain.attach();
  for (int i = 0; i < 100; i++) idle.pin().retire(new Counted);
  {
    const offline_scope scope(idle);
    std::thread([&] {
      auto handle = domain.attach();
      for (int i = 0; i < 20'000; i++) handle.pin().retire(new Counted);
    }).join();
    EXPECT_LT(live, 500);
  }
  idle.pin().retire(new Counted);
  domain.barrier();
  EXPECT_EQ(live, 0);
}

TEST_F(Domain, ATokenThatAThreadLeftMovesOnAlsoIfIdleThreadsKeepIt) {
  options settings = every_policy(policy::batch());
  settings.skip_idle = false;
  domain<token<>> domain(settings);
  auto alone = domain.attach();
  const offline_scope scope(alone);  // no other thread can take the token
  auto handle = domain.attach();
  for (int i = 0; i < 20'000; i++) handle.pin().retire(new Counted);
  EXPECT_LT(live, 500);
}

template <class Scheme>
concept HasGracePeriods = requires(domain<Scheme>& domain) { domain.synchronize(); };

TYPED_TEST(DomainTest, SynchronizeWaitsForOpenGuardsAndNoLonger) {
  if constexpr (HasGracePeriods<TypeParam>) {
    domain<TypeParam> domain;
    std::atomic<bool> open{false};
    std::atomic<bool> closed{false};
    std::thread reader([&] {
      auto guard = domain.pin();
      open = true;
      usleep(20'000);
      closed = true;
    });
    while (!open) usleep(100);
    domain.synchronize();
    EXPECT_TRUE(closed);
    reader.join();
    domain.synchronize();  // no thread is attached
  }
}

TYPED_TEST(DomainTest, RepinEndsTheStay) {
  if constexpr (HasGracePeriods<TypeParam>) {
    domain<TypeParam> domain;
    std::atomic<bool> stop{false};
    std::thread reader([&] {
      auto guard = domain.pin();
      while (!stop) guard.repin();
    });
    usleep(1000);
    domain.synchronize();
    stop = true;
    reader.join();
  }
}

struct Heard {
  std::atomic<int> stalls{0};
  std::atomic<int> thread{0};
};

TYPED_TEST(DomainTest, AStallIsReportedOnceAndNamesTheThread) {
  if constexpr (HasGracePeriods<TypeParam>) {
    Heard heard;
    options settings;
    settings.batch_size = 1;
    settings.stall_ms = 30;
    settings.context = &heard;
    settings.on_stall = [](const stall& what, void* context) noexcept {
      auto& told = *static_cast<Heard*>(context);
      told.stalls++;
      told.thread = what.thread;
    };
    domain<TypeParam> domain(settings);
    std::atomic<int> stalled{0};
    std::atomic<bool> stop{false};
    std::thread reader([&] {
      auto guard = domain.pin();
      stalled = static_cast<int>(syscall(SYS_gettid));
      while (!stop) usleep(1000);
    });
    while (stalled == 0) usleep(100);
    auto handle = domain.attach();
    for (int i = 0; i < 1500 && heard.stalls == 0; i++) {
      for (int k = 0; k < 500; k++) handle.pin().retire(new Counted);
      usleep(1000);
    }
    EXPECT_EQ(heard.stalls, 1);
    EXPECT_EQ(heard.thread, stalled);
    stop = true;
    reader.join();
    EXPECT_EQ(domain.collect().stalls, 1u);
  }
}

TYPED_TEST(DomainTest, RobustSchemesKeepTheirBoundWithAStalledReader) {
  for (const policy& how : kPolicies) {
    domain<TypeParam> domain(every_policy(how));
    std::atomic<Counted*> source = new Counted;
    std::binary_semaphore pinned{0};
    std::binary_semaphore done{0};
    std::thread reader([&] {
      auto guard = domain.pin();
      Counted* seen = guard.protect(0, source);
      pinned.release();
      done.acquire();
      EXPECT_EQ(seen->next, nullptr);
    });
    pinned.acquire();
    auto handle = domain.attach();
    handle.retire(source.exchange(nullptr));
    uint64_t most = 0;
    for (int i = 0; i < 20'000; i++) {
      handle.pin().retire(new Counted);
      most = std::max(most, domain.collect().unreclaimed);
    }
    const uint64_t bound = domain.collect().bound;
    // Under ibr and hyaline these objects, which have no birth, are kept; eras_test.cc has others.
    if (TypeParam::traits.scheme >= impl::Scheme::hazards && !impl::needs_births<TypeParam>) {
      EXPECT_LE(most, bound);
      EXPECT_LT(bound, 3000u);
    } else {
      EXPECT_EQ(bound, 0u);
      EXPECT_GE(most, 19'000u);  // the control: these grow
    }
    done.release();
    reader.join();
    domain.barrier();
    EXPECT_EQ(live, 0);
  }
}

TYPED_TEST(DomainTest, AForkedChildGoesOnAlone) {
  domain<TypeParam> domain(every_policy(policy::adaptive()));
  std::atomic<bool> stop{false};
  near_test::Threads others(2, [&](size_t) {
    while (!stop) domain.retire(new Counted);
  });
  auto handle = domain.attach();
  const auto forks = static_cast<int>(near_test::scaled(10));
  for (int i = 0; i < forks; i++) {
    handle.pin().retire(new Counted);
    const int status = near_test::run_in_child([&] {
      for (int k = 0; k < 1000; k++) handle.pin().retire(new Counted);
      std::thread([&] { domain.retire(new Counted); }).join();
      domain.barrier();
      const statistics sums = domain.collect();
      return sums.unreclaimed == 0 && sums.freed + sums.lost == sums.retired ? 0 : 1;
    });
    EXPECT_EQ(status, 0);
  }
  stop = true;
  others.join();
}

TEST_F(Domain, ManyDomainsLiveSideBySide) {
  std::vector<std::unique_ptr<domain<debra<>>>> domains;
  for (int i = 0; i < 20; i++) domains.push_back(std::make_unique<domain<debra<>>>());
  for (int round = 0; round < 100; round++) {
    for (auto& each : domains) each->retire(new Counted);
  }
  domains.erase(domains.begin(), domains.begin() + 10);
  for (auto& each : domains) each->barrier();
  EXPECT_EQ(live, 0);
}

TEST_F(Domain, AThreadMayOutliveADomainItUsed) {
  std::binary_semaphore used{0};
  std::binary_semaphore gone{0};
  std::optional<domain<debra<>>> domain(std::in_place);
  std::thread thread([&] {
    domain->retire(new Counted);
    used.release();
    gone.acquire();
  });
  used.acquire();
  domain.reset();
  gone.release();
  thread.join();
  EXPECT_EQ(live, 0);
}

TEST_F(Domain, LeakyLeaksAndSaysSo) {
  alignas(8) static char room[64];
  domain<leaky> domain;
  for (char& byte : room) domain.retire(&byte, [](void*) noexcept { FAIL(); });
  EXPECT_EQ(domain.collect().lost, 64u);
  domain.barrier();
}

TEST_F(Domain, ChainsAndDeleters) {
  domain<debra<>> domain;
  auto* first = new Counted;
  first->next = new Counted;
  first->next->next = new Counted;
  domain.pin().retire_chain(first, [](Counted* each) { return each->next; });
  static int calls = 0;
  domain.retire(&calls, [](void* context) noexcept { ++*static_cast<int*>(context); });
  domain.barrier();
  EXPECT_EQ(live, 0);
  EXPECT_EQ(calls, 1);
}

TEST_F(Domain, HandlesMove) {
  domain<debra<>> domain;
  auto first = domain.attach();
  auto second = std::move(first);
  second.pin().retire(new Counted);
  first = std::move(second);
  EXPECT_EQ(domain.collect().threads, 1u);
  first.pin().retire(new Counted);
}

TEST_F(Domain, WithoutMembarrierPinsFence) {
  options settings;
  settings.asymmetric = false;
  settings.batch_size = 64;
  domain<debra<>> domain(settings);
  EXPECT_FALSE(domain.is_asymmetric());
  for (int i = 0; i < 10'000; i++) domain.retire(new Counted);
  EXPECT_LT(live, 2000);
}

TYPED_TEST(DomainTest, ADomainMayEndWhileThreadsThatUsedItEnd) {
  const auto rounds = static_cast<int>(near_test::scaled(100));
  for (int i = 0; i < rounds; i++) {
    std::optional<domain<TypeParam>> domain(std::in_place, every_policy(policy::amortized()));
    std::binary_semaphore used{0};
    std::thread thread([&] {
      for (int k = 0; k < 70; k++) domain->retire(new Counted);
      used.release();
    });
    used.acquire();
    domain.reset();
    thread.join();
    ASSERT_EQ(live, 0);
  }
}

// Objects retired before a barrier are freed after it, though other threads adopt all the time.
TYPED_TEST(DomainTest, ABarrierWaitsForWhatIsAdoptedMeanwhile) {
  domain<TypeParam> domain(every_policy(policy::amortized()));
  std::atomic<bool> stop{false};
  std::thread adopter([&] {
    while (!stop) domain.retire(new char);
  });
  const auto rounds = static_cast<int>(near_test::scaled(300));
  for (int i = 0; i < rounds; i++) {
    std::thread([&] {
      for (int k = 0; k < 20; k++) domain.retire(new Counted);
    }).join();
    domain.barrier();
    ASSERT_EQ(live, 0);
  }
  stop = true;
  adopter.join();
}

TYPED_TEST(DomainTest, AForkedChildOfAnOfflineThreadOrBesideBarriersGoesOn) {
  domain<TypeParam> domain(every_policy(policy::adaptive()));
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) domain.barrier();
  });
  auto handle = domain.attach();
  const auto forks = static_cast<int>(near_test::scaled(20));
  for (int i = 0; i < forks; i++) {
    for (int k = 0; k < 20; k++) handle.pin().retire(new Counted);
    auto scope = std::make_unique<offline_scope<TypeParam>>(handle);
    if (i % 2 == 0) scope.reset();
    const int status = near_test::run_in_child([&] {
      scope.reset();
      for (int k = 0; k < 1000; k++) handle.pin().retire(new Counted);
      domain.barrier();
      return domain.collect().unreclaimed == 0 ? 0 : 1;
    });
    EXPECT_EQ(status, 0);
  }
  stop = true;
  other.join();
}

TYPED_TEST(DomainTest, AHundredThousandJoinsAndLeavesLeaveOneRecord) {
  domain<TypeParam> domain(every_policy(policy::batch()));
  const size_t joins = near_test::scaled(100'000);
  for (size_t i = 0; i < joins; i++) domain.attach().pin().retire(new Counted);
  EXPECT_EQ(domain.collect().records, 1u);
  EXPECT_EQ(domain.collect().threads, 0u);
  domain.barrier();
  EXPECT_EQ(live, 0);
}

TYPED_TEST(DomainTest, AnAdaptivePolicyFreesAtMost32AtATime) {
  if (TypeParam::traits.scheme >= impl::Scheme::hazards) return;  // the bound comes first
  domain<TypeParam> domain(every_policy(policy::adaptive()));
  auto handle = domain.attach();
  for (int i = 0; i < 50'000; i++) {
    auto guard = handle.pin();
    for (int k = 0; k < 3; k++) guard.retire(new Counted);
  }
  EXPECT_LE(domain.collect().longest_run, 32u);
  EXPECT_GT(domain.collect().freed, 100'000u);
}

TEST_F(Domain, WithoutAHandleThereIsTheSame) {
  options settings = every_policy(policy::manual());
  settings.measure_time = true;
  domain<debra<>> domain(settings);
  for (int i = 0; i < 1000; i++) domain.retire(new Counted);
  ASSERT_GT(domain.waiting(), 0u);
  EXPECT_EQ(domain.reclaim(1), 1u);
  domain.reclaim();
  EXPECT_EQ(domain.waiting(), 0u);
  EXPECT_GT(domain.collect().freeing_ns, 0u);
  {
    const offline_scope scope(domain);
  }
  domain.retire(new Counted);
  domain.barrier();
  EXPECT_EQ(live, 0);
}

TEST_F(DomainDeathTest, AProcessMayEndWithThreadsInTheDefaultDomain) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        std::thread([] {
          for (;;) default_domain<debra<>>().retire(new char);
        }).detach();
        for (int i = 0; i < 1000; i++) default_domain<debra<>>().retire(new char);
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(DomainDeathTest, MisuseIsSaidAndAborts) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        domain<debra<>> domain;
        auto guard = domain.pin();
        domain.synchronize();
      },
      "synchronize by a thread that is pinned");
  EXPECT_DEATH(
      {
        domain<debra<>> domain;
        auto handle = domain.attach();
        auto guard = handle.pin();
        domain.synchronize();
      },
      "synchronize by a thread that is pinned");
  EXPECT_DEATH(
      {
        domain<debra<>> domain;
        auto guard = domain.pin();
        domain.barrier();
      },
      "barrier by a thread that is pinned");
  EXPECT_DEATH(
      {
        domain<debra<>> domain;
        auto handle = domain.attach();
        auto guard = handle.pin();
        auto other = std::move(handle);
        other = domain.attach();
      },
      "leaves a domain while it is pinned");
  options none;
  none.operations_between_checks = 0;
  EXPECT_DEATH(domain<debra<>> domain(none), "is 0");
}

}  // namespace
}  // namespace near::reclaim

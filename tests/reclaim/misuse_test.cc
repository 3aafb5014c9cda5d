// Misuse is reported on stderr, and aborts: domain.hpp has the table. This file is compiled twice:
// as programs are, and with NEAR_CHECK.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "every_scheme.h"
#include "nearmalloc/reclaim/domain.hpp"
#include "nearmalloc/reclaim/std26.hpp"
#include "support/cases.h"

namespace near_test {
namespace {

using namespace near::reclaim;

template <class Scheme>
class MisuseDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    count_cases();
  }
};
TYPED_TEST_SUITE(MisuseDeathTest, EveryScheme);

template <class Scheme>
struct Pinned {
  explicit Pinned(domain<Scheme>& domain) : guard(domain.pin()) {}
  near::reclaim::guard<Scheme> guard;
};

TYPED_TEST(MisuseDeathTest, ADomainEndsWhileAThreadIsPinned) {
  EXPECT_DEATH(
      {
        auto domain = std::make_optional<near::reclaim::domain<TypeParam>>();
        auto guard = domain->pin();
        domain.reset();
      },
      "a domain ends while a thread is pinned");
}

TYPED_TEST(MisuseDeathTest, ADeleterWaitsForADomainThatEnds) {
  struct Waiting {
    near::reclaim::domain<TypeParam>& home;
    ~Waiting() { home.barrier(); }
  };
  EXPECT_DEATH(
      {
        auto domain = std::make_optional<near::reclaim::domain<TypeParam>>();
        std::thread([&] { domain->retire(new Waiting{*domain}); }).join();
        domain.reset();
      },
      "barrier by a thread that is pinned, or frees");
}

TYPED_TEST(MisuseDeathTest, ADomainEndsBeforeAHandle) {
  EXPECT_DEATH(
      {
        auto domain = std::make_optional<near::reclaim::domain<TypeParam>>();
        auto handle = domain->attach();
        domain.reset();
      },
      "a domain ends before a handle of it");
}

TYPED_TEST(MisuseDeathTest, AHandleEndsWhileItsThreadIsPinned) {
  EXPECT_DEATH(
      {
        domain<TypeParam> domain;
        auto handle = std::make_optional(domain.attach());
        auto guard = handle->pin();
        handle.reset();
      },
      "leaves a domain while it is pinned");
}

TYPED_TEST(MisuseDeathTest, AThreadEndsWhileItIsPinned) {
  EXPECT_DEATH(
      {
        domain<TypeParam> domain;
        using Guard = typename near::reclaim::domain<TypeParam>::guard_type;
        alignas(Guard) static char room[sizeof(Guard)];
        std::thread([&] { new (room) Guard(domain.pin()); }).join();
      },
      "leaves a domain while it is pinned");
}

TYPED_TEST(MisuseDeathTest, AGuardEndsTwice) {
  EXPECT_DEATH(
      {
        domain<TypeParam> domain;
        auto guard = std::make_optional<Pinned<TypeParam>>(domain);
        using Guard = decltype(guard->guard);
        alignas(Guard) unsigned char copy[sizeof(Guard)];
        std::memcpy(copy, static_cast<void*>(&guard->guard), sizeof copy);
        guard.reset();
        std::destroy_at(std::launder(reinterpret_cast<Guard*>(copy)));
      },
      "a guard ends that has ended before");
}

TYPED_TEST(MisuseDeathTest, AThreadPinsInsideAnOfflineScope) {
  EXPECT_DEATH(
      {
        domain<TypeParam> domain;
        {
          auto guard = domain.pin();
        }
        const offline_scope<TypeParam> scope(domain);
        auto guard = domain.pin();
      },
      "inside its offline_scope");
  EXPECT_DEATH(
      {
        domain<TypeParam> domain;
        auto handle = domain.attach();
        {
          auto guard = handle.pin();
        }
        const offline_scope<TypeParam> scope(handle);
        handle.retire(new char);
      },
      "inside its offline_scope");
}

// The calls that may meet threads which take over what the scope's thread retired.
TYPED_TEST(MisuseDeathTest, ADomainIsUsedInsideItsOfflineScope) {
  const std::function<void(domain<TypeParam>&)> uses[] = {
      [](auto& domain) { domain.reclaim(); },
      [](auto& domain) {
        domain.barrier();  // does nothing under leaky
        domain.reclaim();
      },
      [](auto& domain) {
        if constexpr (TypeParam::has_grace_periods) domain.synchronize();
        domain.reclaim();
      },
      [](auto& domain) { const offline_scope<TypeParam> second(domain); },
  };
  for (const auto& use : uses) {
    EXPECT_DEATH(
        {
          domain<TypeParam> domain;
          domain.retire(new char);
          const offline_scope<TypeParam> scope(domain);
          use(domain);
          std::_Exit(0);
        },
        "inside its offline_scope");
  }
}

TYPED_TEST(MisuseDeathTest, AHandleEndsInsideItsOfflineScope) {
  EXPECT_DEATH(
      {
        domain<TypeParam> domain;
        auto handle = std::make_optional(domain.attach());
        const offline_scope<TypeParam> scope(*handle);
        handle.reset();
      },
      "ends inside its offline_scope");
}

TYPED_TEST(MisuseDeathTest, AHandleReclaimsInAThreadThatDidNotAdoptIt) {
  EXPECT_DEATH(
      {
        domain<TypeParam> domain;
        auto handle = domain.attach();
        std::thread([handle = std::move(handle)]() mutable { handle.reclaim(); }).join();
      },
      "used by another thread");
}

TYPED_TEST(MisuseDeathTest, AHandleIsUsedByAThreadThatDidNotAdoptIt) {
  EXPECT_DEATH(
      {
        domain<TypeParam> domain;
        auto handle = domain.attach();
        std::thread([handle = std::move(handle)]() mutable {
          for (int i = 0; i < 100'000; i++) handle.retire(new char);
        }).join();
      },
      "used by another thread");
}

TYPED_TEST(MisuseDeathTest, AGuardIsUsedByAnotherThread) {
  EXPECT_DEATH(
      {
        domain<TypeParam> domain;
        auto guard = domain.pin();
        std::thread([&] {
          for (int i = 0; i < 100'000; i++) {
            guard.repin();
            guard.retire(new char);
          }
        }).join();
      },
      "used by another thread");
}

TYPED_TEST(MisuseDeathTest, AHandleThatIsAdoptedMayBeUsed) {
  domain<TypeParam> domain;
  auto handle = domain.attach();
  handle.retire(new char);
  std::thread([handle = std::move(handle)]() mutable {
    handle.adopt();
    for (int i = 0; i < 5000; i++) handle.retire(new char);
  }).join();
}

// --- noticed by programs that are compiled for it ---

#if NEAR_CHECK
template <class Scheme>
using CheckedMisuseDeathTest = MisuseDeathTest<Scheme>;
TYPED_TEST_SUITE(CheckedMisuseDeathTest, EveryScheme);

TYPED_TEST(CheckedMisuseDeathTest, AnObjectIsRetiredTwice) {
  EXPECT_DEATH(
      {
        domain<TypeParam> domain;
        auto* object = new CountedObject;
        const auto guard = domain.pin();  // without it, the object may be freed between the two
        domain.retire(object);
        domain.retire(object);
      },
      "an object is retired that was retired before");
  EXPECT_DEATH(
      {
        domain<TypeParam> first;
        domain<TypeParam> second;
        auto* object = new char;
        first.retire(object);
        std::thread([&] { second.retire(object); }).join();
      },
      "an object is retired that was retired before");
}

TYPED_TEST(CheckedMisuseDeathTest, ANullPointerIsRetired) {
  EXPECT_DEATH(
      {
        domain<TypeParam> domain;
        domain.retire(static_cast<char*>(nullptr));
      },
      "retire of a null pointer");
}

TYPED_TEST(CheckedMisuseDeathTest, OneUseByAnotherThreadIsEnough) {
  EXPECT_DEATH(
      {
        domain<TypeParam> domain;
        auto guard = domain.pin();
        std::thread([&] { guard.retire(new char); }).join();
      },
      "used by another thread");
}

// Addresses are used again, also by other threads, and deleters may use the domain freely.
TYPED_TEST(CheckedMisuseDeathTest, RightUseIsNoMisuse) {
  domain<TypeParam> domain;
  const auto retire_some = [&] {
    for (int i = 0; i < 10'000; i++) {
      domain.retire(new CountedObject);
      domain.retire(new char);
      domain.retire(&domain, [](void*) noexcept {});
    }
  };
  std::thread other(retire_some);
  retire_some();
  other.join();
  domain.barrier();
  EXPECT_EQ(domain.collect().unreclaimed, 0u);
}

TEST(Std26CheckedDeathTest, AnObjectIsRetiredTwice) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  count_cases();
  struct Node : std26::hazard_pointer_obj_base<Node> {};
  struct Entry : std26::rcu_obj_base<Entry> {};
  const auto retire_twice = [](auto* object) {
    object->retire();
    object->retire();
  };
  EXPECT_DEATH(retire_twice(new Node), "an object is retired that was retired before");
  EXPECT_DEATH(retire_twice(new Entry), "an object is retired that was retired before");
}
#endif

}  // namespace
}  // namespace near_test

// Deleters that use the domain: they run inside a pin that began, and must not end it.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <utility>

#include "nearmalloc/reclaim/domain.hpp"
#include "support/cases.h"

namespace near::reclaim {
namespace {

template <class Scheme>
class DeleterTest : public testing::Test {
 protected:
  void SetUp() override { near_test::count_cases(); }
};

using Schemes =
    testing::Types<debra<announce::before_free>, debra<announce::after_free>,
                   token<pass::after_free>, token<pass::before_free>, token<pass::while_freeing>,
                   checkpoints, hazard_pointers, ping_epochs, ibr, hyaline>;
TYPED_TEST_SUITE(DeleterTest, Schemes);

int ended = 0;
struct Child {
  ~Child() { ended++; }
};

// Retires to its domain when it is destroyed, as the root of a tree does.
template <class Scheme>
struct Parent {
  ~Parent() {
    is_destroyed = true;
    home->retire(new Child);
  }
  handle<Scheme>* home;
  bool& is_destroyed;
};

TYPED_TEST(DeleterTest, AGuardProtectsAfterADeleterRanAtItsBegin) {
  ended = 0;
  options eager;
  eager.reclaim = policy::batch();
  eager.batch_size = 0;
  eager.operations_between_checks = 1;
  eager.records_per_check = 8;
  domain<TypeParam> domain(eager);
  auto reader = domain.attach();
  auto writer = domain.attach();
  bool is_destroyed = false;
  reader.retire(new Parent<TypeParam>{&reader, is_destroyed});
  std::atomic<Child*> source{new Child};
  for (int i = 0; i < 10'000 && !is_destroyed; i++) {
    {
      auto other = writer.pin();
    }
    auto guard = reader.pin();
    // These look when many wait.
    const bool has_only_looks =
        std::is_same_v<TypeParam, hazard_pointers> || impl::needs_births<TypeParam>;
    if (has_only_looks) guard.retire(new int);
    if (!is_destroyed) continue;
    const Child* held = guard.protect(0, source);
    ASSERT_NE(held, nullptr);
    const int before = ended;
    writer.retire(source.exchange(nullptr));
    for (int j = 0; j < 1000; j++) auto other = writer.pin();
    EXPECT_EQ(ended, before);
  }
  EXPECT_TRUE(is_destroyed);
}

struct Flagged {
  ~Flagged() { is_dead = true; }
  bool& is_dead;
};

// A pin in a new epoch may find more waiting objects than a robust scheme allows, and frees them
// before it makes the guard: deleters that pin must not end the stay that has begun.
TEST(Deleter, APingEpochThatKeepsItsBoundAtAPinStaysPinned) {
  near_test::count_cases();
  options eager;
  eager.reclaim = policy::manual();
  eager.batch_size = 0;
  eager.operations_between_checks = 1;
  eager.records_per_check = 8;
  bool parent_is_destroyed = false;
  std::deque<bool> dead;  // outlives the domain
  domain<ping_epochs> domain(eager);
  auto reader = domain.attach();
  auto writer = domain.attach();
  std::atomic<Flagged*> source{nullptr};
  for (int i = 0; i < 500; i++) {
    dead.push_back(false);
    source = new Flagged{dead.back()};
    for (int k = 0; k < 10; k++) {
      reader.retire(new Parent<ping_epochs>{&reader, parent_is_destroyed});
      auto other = writer.pin();
    }
    auto guard = reader.pin();
    (void)guard.protect(0, source);
    writer.retire(source.exchange(nullptr));
    for (int j = 0; j < 30; j++) {
      auto other = writer.pin();
      other.retire(new int);
    }
    writer.reclaim();
    ASSERT_FALSE(dead.back());
  }
  EXPECT_TRUE(parent_is_destroyed);
  // Each parent uses the handle, which the domain outlives.
  for (int i = 0; i < 10'000 && reader.waiting() > 0; i++) {
    auto other = writer.pin();
    reader.reclaim();
  }
}

// Function objects: without a state under each scheme, with one where everything read stays.
TYPED_TEST(DeleterTest, IsAnyFunctionObject) {
  static int calls;
  calls = 0;
  constexpr bool kHasSlots = !TypeParam::protects_all && !impl::needs_births<TypeParam>;
  constexpr bool kMayHaveState = !kHasSlots && !impl::makes_sections<TypeParam>;
  int sum = 0;
  domain<TypeParam> domain;
  {
    auto guard = domain.pin();
    guard.retire_with(new Child, [](Child* child) {
      calls++;
      delete child;
    });
    if constexpr (kMayHaveState) {
      auto owned = std::make_unique<int>(7);
      guard.retire_with(new int(5), [&sum, owned = std::move(owned)](const int* number) {
        sum = *number + *owned;
        delete number;
      });
    }
  }
  domain.barrier();
  EXPECT_EQ(calls, 1);
  domain.retire_with(new Child, [](Child* child) {
    calls++;
    delete child;
  });
  domain.barrier();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(sum, kMayHaveState ? 12 : 0);
}

}  // namespace
}  // namespace near::reclaim

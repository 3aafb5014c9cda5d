// versioned: readers see whole versions, no update is lost, and every version is destroyed once.
#include "nearmalloc/reclaim/versioned.hpp"

#include <memory>
#include <new>
#include <stdexcept>

#include "every_scheme.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace near::reclaim;

struct Pair {
  Pair() { live_objects++; }
  Pair(long its_left, long its_right) : left(its_left), right(its_right) { live_objects++; }
  Pair(const Pair& other) : left(other.left), right(other.right) { live_objects++; }
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    left = 1;
    right = 1;
    live_objects--;
  }
  long left = 0;
  long right = 0;
};

template <class Scheme>
class VersionedTest : public testing::Test {
 protected:
  VersionedTest() {
    live_objects = 0;
    count_cases();
  }
  ~VersionedTest() override { EXPECT_EQ(live_objects, 0); }
};
TYPED_TEST_SUITE(VersionedTest, EveryScheme);

TYPED_TEST(VersionedTest, AVersionStaysAsItWasUntilTheGuardEnds) {
  domain<TypeParam> domain;
  versioned<Pair, near::reclaim::domain<TypeParam>> value(domain, 7, -7);
  {
    auto guard = domain.pin();
    const Pair& first = value.read(guard);
    value.update([](Pair& next) { next.left = 8; });
    value.update(guard, [](Pair& next) { next.right = -8; });
    value.replace(std::make_unique<Pair>(9, -9));
    for (int i = 0; i < 4000; i++) domain.retire(new char);
    EXPECT_EQ(first.left, 7);
    EXPECT_EQ(first.right, -7);
    EXPECT_EQ(value.read(guard, 1).left, 9);
  }
  EXPECT_EQ(value.get().right, -9);
}

TYPED_TEST(VersionedTest, AnUpdateThatThrowsChangesNothing) {
  domain<TypeParam> domain;
  versioned<Pair, near::reclaim::domain<TypeParam>> value(domain, 1, -1);
  const auto fail = [](Pair& next) {
    next.left = 5;
    throw std::runtime_error("no");
  };
  EXPECT_THROW(value.update(fail), std::runtime_error);
  EXPECT_EQ(value.get().left, 1);
}

TYPED_TEST(VersionedTest, NoUpdateIsLostAndNoVersionIsTorn) {
  const long rounds = static_cast<long>(scaled(10'000));
  domain<TypeParam> domain;
  versioned<Pair, near::reclaim::domain<TypeParam>> value(domain);
  run_threads(4, [&](size_t number) {
    for (long i = 0; i < rounds; i++) {
      if (number < 2) {
        value.update([](Pair& next) {
          next.left++;
          next.right--;
        });
      }
      auto guard = domain.pin();
      const Pair& now = value.read(guard);
      EXPECT_EQ(now.left + now.right, 0);
      EXPECT_LE(now.left, value.read(guard, 1).left);
    }
  });
  EXPECT_EQ(value.get().left, 2 * rounds);
}

}  // namespace
}  // namespace near_test

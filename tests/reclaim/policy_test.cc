// Policies at work: the default keeps up with whatever is retired.
#include <algorithm>
#include <cstddef>
#include <tuple>

#include "every_scheme.h"
#include "support/cases.h"

namespace near_test {
namespace {

using namespace near::reclaim;

template <class Scheme>
class PolicyTest : public testing::Test {
 protected:
  void SetUp() override { live_objects = 0; }
};
TYPED_TEST_SUITE(PolicyTest, EveryScheme);

// The most objects that wait in each half of the operations, of `per_operation` retirements each.
template <class Scheme>
std::tuple<size_t, size_t> most_waiting(size_t per_operation, size_t operations) {
  domain<Scheme> domain;
  auto handle = domain.attach();
  size_t most[2] = {};
  for (size_t i = 0; i < operations; i++) {
    auto guard = handle.pin();
    for (size_t k = 0; k < per_operation; k++) guard.retire(new CountedObject);
    size_t& half = most[i * 2 / operations];
    half = std::max(half, handle.waiting());
  }
  EXPECT_LT(domain.collect().unreclaimed, per_operation * operations / 10);
  count_cases();
  return {most[0], most[1]};
}

// policy.hpp states (1024 + D) * r. A thread alone begins an epoch every 20 operations, or when it
// has retired a batch, and three epochs make an object safe.
TYPED_TEST(PolicyTest, TheDefaultKeepsUpWithAnyNumberOfRetirements) {
  for (const size_t per_operation : {1u, 3u, 20u, 100u, 700u}) {
    const size_t operations = std::max<size_t>(3000, 30'000 / per_operation);
    const auto [early, late] = most_waiting<TypeParam>(per_operation, operations);
    const size_t wait = 3 * (60 + 1024 / per_operation);
    EXPECT_LE(late, (1024 + wait) * per_operation);
    EXPECT_LE(late, 2 * early) << "grows at " << per_operation << " an operation";
  }
}

// After many operations come few: the waiting objects are freed, and the quota falls with them.
TYPED_TEST(PolicyTest, TheDefaultSettlesAfterABurst) {
  domain<TypeParam> domain;
  auto handle = domain.attach();
  for (int i = 0; i < 200; i++) {
    auto guard = handle.pin();
    for (int k = 0; k < 500; k++) guard.retire(new CountedObject);
  }
  for (int i = 0; i < 40'000; i++) handle.pin().retire(new CountedObject);
  EXPECT_LT(domain.collect().unreclaimed, 8000u);
  count_cases();
}

}  // namespace
}  // namespace near_test

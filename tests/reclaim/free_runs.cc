// Runs of plain objects, from a limbo to near_free_batch: this program defines its own, which
// records what it gets and frees it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "nearmalloc/reclaim/domain.hpp"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using Addresses = std::vector<uintptr_t>;

std::mutex mutex;
std::vector<size_t> runs;  // their lengths
Addresses handed_over;
bool is_ours = true;

uintptr_t address(const void* block) { return reinterpret_cast<uintptr_t>(block); }

}  // namespace
}  // namespace near_test

extern "C" {
size_t near_free_batch(void* const* blocks, size_t count) noexcept {
  const std::lock_guard lock(near_test::mutex);
  near_test::runs.push_back(count);
  for (size_t i = 0; i < count; ++i) {
    near_test::handed_over.push_back(near_test::address(blocks[i]));
    ::operator delete(blocks[i]);
  }
  return 1;
}
size_t near_malloc_usable_size(void* block) noexcept {
  return near_test::is_ours && block != nullptr ? 16 : 0;
}
}

namespace near_test {
namespace {

namespace reclaim = near::reclaim;
using Domain = reclaim::domain<reclaim::debra<>>;
constexpr size_t kRun = reclaim::impl::Limbo::kRun;

// A run belongs to one thread and one call to free, whatever lies between its objects.
struct Owner {
  static inline size_t destroyed = 0;
  ~Owner() { ++destroyed; }
  uint64_t room = 0;
};

reclaim::options by_hand() {
  reclaim::options settings;
  settings.reclaim = reclaim::policy::manual();
  settings.batch_size = 1;
  return settings;
}

class FreeRuns : public testing::Test {
 protected:
  FreeRuns() {
    runs.clear();
    handed_over.clear();
    is_ours = true;
    Owner::destroyed = 0;
  }
};

// Afterwards every retired object is safe and still waits.
void let_expire(Domain& domain, size_t objects) {
  for (int i = 0; i < 1000 && domain.waiting() < objects; ++i) (void)domain.pin();
  ASSERT_EQ(domain.waiting(), objects);
}

Addresses sorted(Addresses addresses) {
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

TEST_F(FreeRuns, AreWholeAndHoldEachObjectOnce) {
  for (const size_t objects : {size_t{1}, kRun - 1, kRun, kRun + 1, 5 * kRun + 7}) {
    runs.clear();
    handed_over.clear();
    Domain domain(by_hand());
    Addresses retired;
    {
      auto guard = domain.pin();
      for (size_t i = 0; i < objects; ++i) {
        auto* const object = new uint64_t(i);
        retired.push_back(address(object));
        guard.retire(object);
      }
    }
    let_expire(domain, objects);
    EXPECT_TRUE(runs.empty());
    EXPECT_EQ(domain.reclaim(), objects);
    std::vector<size_t> expected(objects / kRun, kRun);
    if (objects % kRun != 0) expected.push_back(objects % kRun);
    EXPECT_EQ(runs, expected);
    EXPECT_EQ(sorted(handed_over), sorted(retired));
    EXPECT_EQ(domain.collect().freed, objects);
    count_cases();
  }
}

TEST_F(FreeRuns, AreOfPlainObjectsOnlyWhateverLiesBetween) {
  Domain domain(by_hand());
  Addresses plain;
  {
    auto guard = domain.pin();
    for (uint64_t i = 0; i < 300; ++i) {
      if (i % 3 == 0) {
        guard.retire(new Owner);
        continue;
      }
      auto* const object = new uint64_t(i);
      plain.push_back(address(object));
      guard.retire(object);
    }
  }
  let_expire(domain, 300);
  EXPECT_EQ(domain.reclaim(), 300u);
  EXPECT_EQ(Owner::destroyed, 100u);
  EXPECT_EQ(runs, (std::vector<size_t>{kRun, kRun, kRun, 200 - 3 * kRun}));
  EXPECT_EQ(sorted(handed_over), sorted(plain));
  count_cases();
}

TEST_F(FreeRuns, AreAsLongAsThePolicyFreesAtATime) {
  Domain domain(by_hand());
  {
    auto guard = domain.pin();
    for (uint64_t i = 0; i < 100; ++i) guard.retire(new uint64_t(i));
  }
  let_expire(domain, 100);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(domain.reclaim(10), 10u);
  EXPECT_EQ(runs, std::vector<size_t>(10, 10));
  count_cases();
}

TEST_F(FreeRuns, OfSeveralThreadsHoldEachObjectOnce) {
  Addresses retired;
  std::mutex guards_retired;
  {
    Domain domain({.reclaim = reclaim::policy::batch(), .batch_size = 100});
    run_threads(3, [&](size_t) {
      for (size_t i = 0; i < scaled(20'000); ++i) {
        // Noted before it is retired: afterwards another object may have the address.
        auto* const object = new uint64_t(i);
        {
          const std::lock_guard lock(guards_retired);
          retired.push_back(address(object));
        }
        domain.retire(object);
      }
    });
  }
  EXPECT_EQ(handed_over.size(), retired.size());
  EXPECT_EQ(sorted(handed_over), sorted(retired));
  EXPECT_TRUE(std::all_of(runs.begin(), runs.end(),
                          [](size_t length) { return length >= 1 && length <= kRun; }));
  EXPECT_LT(runs.size(), retired.size() / 4);
  count_cases();
}

void expect_no_runs(const reclaim::options& settings) {
  Domain domain(settings);
  for (uint64_t i = 0; i < 1000; ++i) domain.retire(new uint64_t(i));
  domain.barrier();
  EXPECT_EQ(domain.collect().freed, 1000u);
  EXPECT_TRUE(runs.empty());
  count_cases();
}

TEST_F(FreeRuns, AreNotWhereOperatorNewIsSomebodyElses) {
  is_ours = false;
  expect_no_runs({});
}

TEST_F(FreeRuns, AreNotWhereTheOptionSaysSo) { expect_no_runs({.hand_over_runs = false}); }

}  // namespace
}  // namespace near_test

// What a domain knows about the waiting objects without looking at every record.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <vector>

#include "every_scheme.h"
#include "support/cases.h"
#include "support/parallel.h"
#include "test_access.h"

namespace near_test {
namespace {

using namespace near::reclaim;
using impl::TestAccess;

template <class Scheme>
class GarbageTest : public testing::Test {};
TYPED_TEST_SUITE(GarbageTest, EveryScheme);

options small_batches() {
  options settings;
  settings.batch_size = 8;
  settings.operations_between_checks = 1;
  return settings;
}

// The sum follows the objects that threads retire, leave behind, adopt and free.
TYPED_TEST(GarbageTest, TheSumHasWhatThreadsHoldAndLose) {
  domain<TypeParam> domain(small_batches());
  for (int round = 0; round < 20; round++) {
    // More at once in the first round: most of their records are never used again.
    constexpr int kMost = 10;
    const int count = round == 0 ? kMost : 1;
    std::latch all(count);
    run_threads(count, [&](size_t) {
      for (int i = 0; i < 100; i++) domain.retire(new char);
      all.arrive_and_wait();
    });
    for (int i = 0; i < 1000; i++) domain.retire(new char);
    const statistics sums = domain.collect();
    const uint64_t garbage = TestAccess::garbage(domain);
    EXPECT_LE(garbage, sums.unreclaimed + 200);
    EXPECT_LE(sums.unreclaimed, garbage + 200);
    EXPECT_GE(sums.peak_unreclaimed, 8u);
    count_cases();
  }
  domain.barrier();
  impl::Core& core = TestAccess::core(domain);
  // pairs: records
  for (impl::Record* record = core.records.load(); record != nullptr; record = record->next) {
    core.count_garbage(*record);
  }
  EXPECT_EQ(TestAccess::garbage(domain), 0u);
}

// The least time, over some rounds, of a hundred notes in a domain with this many records.
template <class Scheme>
double time_of_notes(size_t records) {
  domain<Scheme> domain;
  std::vector<typename near::reclaim::domain<Scheme>::handle_type> handles;
  for (size_t i = 0; i < records; i++) handles.push_back(domain.attach());
  impl::Core& core = TestAccess::core(domain);
  impl::Record& mine = *core.records.load();
  double least = 1;
  for (int round = 0; round < 20; round++) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; i++) core.record_epoch(mine, 1);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    least = std::min(least, time.count());
  }
  count_cases();
  return least;
}

TYPED_TEST(GarbageTest, ANoteOfAnEpochTakesAsLongWithManyRecordsAsWithOne) {
  EXPECT_LT(time_of_notes<TypeParam>(2000), 20 * time_of_notes<TypeParam>(1));
}

}  // namespace
}  // namespace near_test

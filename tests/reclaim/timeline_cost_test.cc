// What recording costs: nanoseconds of an interval, page faults, and pairs of the same work with
// and without it. Bounds are loose, for emulators and sanitizers; the numbers are printed.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nearmalloc/reclaim/timeline.hpp>
#include <vector>

#include "support/cases.h"

namespace {

using near::reclaim::kind;
using near::reclaim::scope;
using near::reclaim::timeline;
using near::reclaim::track;
using near_test::count_cases;

// CPU time of this thread, which others on the machine hardly change.
double cpu_ns() {
  struct timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

long page_faults() {
  struct rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

TEST(TimelineCost, ATouchedRowMeetsNoPageFault) {
  constexpr uint64_t kEvents = 50'000;  // 300 pages of 4 KiB
  timeline recorder(1, kEvents);
  track& row = *recorder.join("main");
  row.touch();
  const long before = page_faults();
  for (uint64_t number = 0; number < kEvents; number++) row.point(kind::other, number, number);
  EXPECT_LE(page_faults() - before, 5);
  EXPECT_EQ(recorder.dropped(), 0u);
  count_cases();
}

// Time of an interval with its two readings of the clock, averaged over `events` of a row.
double ns_per_interval(track& row, size_t events) {
  const double begin = cpu_ns();
  for (size_t number = 0; number < events; number++) {
    const uint64_t at = timeline::now();
    row.interval(kind::free_batch, at, timeline::now(), number, 1);
  }
  return (cpu_ns() - begin) / static_cast<double>(events);
}

TEST(TimelineCost, AnIntervalIsCheap) {
  constexpr size_t kEvents = 100'000;
  double fresh = 1e9, touched = 1e9, dropping = 1e9;
  for (int round = 0; round < 9; round++) {
    timeline recorder(2, kEvents);
    track& ready = *recorder.join("touched");
    ready.touch();
    touched = std::min(touched, ns_per_interval(ready, kEvents));
    dropping = std::min(dropping, ns_per_interval(ready, kEvents));
    fresh = std::min(fresh, ns_per_interval(*recorder.join("fresh"), kEvents));
    EXPECT_EQ(recorder.dropped(), kEvents);
  }
  std::printf("ns per interval: %.1f touched before, %.1f with page faults, %.1f dropped\n",
              touched, fresh, dropping);
  EXPECT_LT(fresh, 4000);
  count_cases();
}

// Allocates and frees in batches; returns the CPU time.
double free_batches(track* row, size_t batch, size_t batches) {
  std::vector<void*> bag(batch);
  const double begin = cpu_ns();
  for (size_t epoch = 0; epoch < batches; epoch++) {
    for (void*& object : bag) object = std::malloc(64);
    scope freeing(row, kind::free_batch, epoch);
    for (void* object : bag) std::free(object);
    if (row != nullptr) row->sample(kind::unreclaimed, timeline::now(), batch);
  }
  return cpu_ns() - begin;
}

TEST(TimelineCost, PairsWithAndWithoutDifferLittle) {
  constexpr size_t kBatch = 1000;
  const size_t batches = near_test::scaled(200);
  std::vector<double> ratios;
  for (int pair = 0; pair < 51; pair++) {
    timeline recorder(1, 2 * batches);
    track* const row = recorder.join("main");
    row->touch();
    const bool first = pair % 2 == 0;
    const double one = free_batches(first ? row : nullptr, kBatch, batches);
    const double other = free_batches(first ? nullptr : row, kBatch, batches);
    ratios.push_back(first ? one / other : other / one);
    count_cases();
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("batches of %zu, with / without: %.4f [quartiles %.4f, %.4f]\n", kBatch, ratios[25],
              ratios[12], ratios[38]);
  EXPECT_LT(ratios[25], 1.2);
}

}  // namespace

// A hash map during a fork, while another thread links a bucket or enlarges the table.
#include <gtest/gtest.h>

#include <functional>
#include <semaphore>
#include <thread>

#include "nearmalloc/reclaim/hash_map.hpp"
#include "preempting_domain.h"
#include "support/cases.h"
#include "support/forked.h"
#include "test_access.h"

namespace near_test {
namespace {

using namespace near::reclaim;
using impl::TestAccess;

using Domain = PreemptingDomain<Hazards>;
using HazardMap = hash_map<long, long, Domain>;

// Runs `child` in a child; whether it returned true.
template <class Child>
bool in_child(Child child) {
  return run_in_child([&] { return child() ? 0 : 1; }) == 0;
}

bool is_any_claimed(const HazardMap& map) {
  bool any = false;
  for (size_t bucket = 0; bucket < map.buckets(); bucket++) {
    any = any || TestAccess::is_claimed(map, bucket);
  }
  return any;
}

void insert_many(HazardMap& map, long first, long end) {
  for (long key = first; key < end; key++) map.insert(key, key);
}

// Another thread is stopped at a step of its insertions, most of which link a bucket.
bool goes_on_after_a_fork_at(int holds) {
  domain<debra<>> that_notices_forks;
  Domain domain;
  HazardMap map(domain, 1024);
  std::binary_semaphore stopped{0};
  std::binary_semaphore go_on{0};
  std::thread other([&] {
    int left = holds;
    domain.set_preemption([&] {
      if (--left != 0) return;
      stopped.release();
      go_on.acquire();
    });
    insert_many(map, 0, 10);
    domain.set_preemption(nullptr);
    if (left > 0) stopped.release();
  });
  stopped.acquire();
  const bool good = in_child([&] {
    domain.set_preemption(nullptr);
    insert_many(map, 0, 100);
    return map.size() == 100 && map.check() && !is_any_claimed(map);
  });
  go_on.release();
  other.join();
  return good;
}

TEST(HashMapFork, AForkedChildLinksTheBucketsThatAnotherThreadHadClaimed) {
  for (int holds = 1; holds < 80; holds++) {
    EXPECT_TRUE(goes_on_after_a_fork_at(holds)) << "at step " << holds;
    count_cases();
  }
}

TEST(HashMapFork, AForkedChildEnlargesTheTableThatAnotherThreadWasAtWorkAt) {
  domain<debra<>> that_notices_forks;
  Domain domain;
  HazardMap map(domain, 8);
  TestAccess::growing(map) = impl::fork_count() + 1;
  insert_many(map, 0, 1000);
  EXPECT_EQ(map.buckets(), 8u);
  EXPECT_TRUE(in_child([&] {
    insert_many(map, 1000, 5000);
    return map.buckets() > 8 && map.size() == 5000 && map.check();
  }));
  count_cases();
}

}  // namespace
}  // namespace near_test

// What could give a request another chance to be sampled than the profile takes it for.
#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "front/thread.h"
#include "heap/registry.h"
#include "node/memory.h"
#include "profiling.h"
#include "support/cases.h"
#include "support/forked.h"
#include "support/threads.h"

namespace near_test {
namespace {

constexpr unsigned kMarkedBlocks = 1000;

void take_and_free(size_t size) {
  std::vector<void*> blocks(kMarkedBlocks);
  for (void*& block : blocks) block = near_malloc(size);
  for (void* block : blocks) near_free(block);
}

// A stop leaves marks in the lists. At a start, a thread may meet one before its heap takes part.
TEST(MarkedBlocks, AMarkOfAnEarlierRunIsNoSample) {
  {
    const Profiling profiling(100);
    take_and_free(64);
    EXPECT_GT(near::profile::summary().samples, kMarkedBlocks / 4);
  }
  const uint64_t before = near::profile::summary().samples;
  near::profile::running.set();
  take_and_free(64);
  near::profile::running.clear();
  EXPECT_EQ(near::profile::summary().samples, before);
  EXPECT_EQ(near_check(), 0u);
  count_cases();
}

// The heap, which the thread does not have yet, serves requests for 130 bytes with blocks of 160.
TEST(MarkedBlocks, TheFirstRequestOfAThreadForANodeHasTheChanceOfItsBlock) {
  const Profiling profiling(300);
  const int node = near::topology.kernel_id[0];
  const auto threads = static_cast<unsigned>(scaled(8000));
  for (unsigned i = 0; i < threads; i++) {
    std::thread([node] { near_free(near_malloc_on_node(130, node, 0)); }).join();
  }
  const ProfileTotals found = profile_totals();
  const uint64_t truth = uint64_t{130} * threads;
  EXPECT_LT(std::abs(ProfileTotals::deviations(found.allocated.bytes, truth, found.variance)), 4);
  count_cases();
}

TEST(MarkedBlocks, AHeapWhoseThreadWasTakingASampleTakesOthersInAChild) {
  if (NEAR_TSAN != 0) GTEST_SKIP() << "forks are not for TSan";
  if (std::getenv("NEAR_TEST_EMULATOR") != nullptr) GTEST_SKIP() << "nor beside threads for qemu";
  const Profiling profiling(100);
  Worker other;
  near::Heap* theirs = nullptr;
  other([&] {
    near_free(near_malloc(1));
    theirs = near::current_heap;
    theirs->countdown.pause();
  });
  EXPECT_EQ(run_in_child([&] { return theirs->countdown.is_paused() ? 1 : 0; }), 0);
  EXPECT_TRUE(theirs->countdown.is_paused());
  theirs->countdown.reset();
  count_cases();
}

}  // namespace
}  // namespace near_test

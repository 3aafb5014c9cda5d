// What the profiler knows of blocks that other threads free: how long after their allocation, and
// how far from their node. On fake topologies and fake CPUs.
#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <chrono>
#include <thread>
#include <vector>

#include "profiling.h"
#include "support/cases.h"
#include "support/numa_room.h"
#include "support/threads.h"

namespace near_test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kEveryBlock = 1;  // the mean at which nearly every block is sampled
constexpr size_t kSize = 1000;
constexpr unsigned kBlocks = 40;
constexpr auto kWait = std::chrono::milliseconds(60);

class NumaProfile : public NumaTest {
 protected:
  std::vector<void*> allocated_by(Worker& worker) {
    std::vector<void*> blocks;
    worker([&] {
      for (unsigned i = 0; i < kBlocks; i++) blocks.push_back(near_malloc(kSize));
    });
    return blocks;
  }

  // The distances between node 0 and the last one, of the topologies in CMakeLists.txt.
  uint64_t there() const { return far(31, 17, 85); }
  uint64_t back() const { return far(42, 17, 85); }

  static double seconds(Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  }

 private:
  static uint64_t far(uint64_t of_two, uint64_t of_four, uint64_t of_eight) {
    const unsigned count = near::topology.count;
    return count == 2 ? of_two : count == 4 ? of_four : of_eight;
  }
};

TEST_F(NumaProfile, AFreeOnAnotherNodeCountsWithItsDistance) {
  const Profiling profiling(kEveryBlock);
  Worker home(0);
  Worker far(other_node());
  std::vector<void*> blocks = allocated_by(home);
  far([&] { free_all(blocks); });
  const ProfileTotals first = profile_totals();
  EXPECT_GE(first.moved.bytes, (kBlocks - 1) * kSize);
  EXPECT_EQ(first.moved_distance, first.moved.bytes * back()) << "of the block from the thread";
  blocks = allocated_by(far);
  home([&] { free_all(blocks); });
  const ProfileTotals last = profile_totals();
  const uint64_t moved = last.moved.bytes - first.moved.bytes;
  EXPECT_GE(moved, (kBlocks - 1) * kSize);
  EXPECT_EQ(last.moved_distance - first.moved_distance, moved * there());
  count_cases(2 * kBlocks);
}

TEST_F(NumaProfile, AFreeAtHomeHasNoDistance) {
  const Profiling profiling(kEveryBlock);
  Worker home(0);
  Worker neighbour(0);
  std::vector<void*> blocks = allocated_by(home);
  home([&] { free_all(blocks); });
  EXPECT_EQ(profile_totals().remote.bytes, 0u);
  EXPECT_EQ(profile_totals().remote_lifetimes, 0);
  blocks = allocated_by(home);
  neighbour([&] { free_all(blocks); });
  const ProfileTotals found = profile_totals();
  EXPECT_GE(found.remote.bytes, (kBlocks - 1) * kSize);
  EXPECT_GT(found.remote_lifetimes, 0);
  EXPECT_EQ(found.moved.bytes, 0u);
  EXPECT_EQ(found.moved_distance, 0u);
  count_cases(2 * kBlocks);
}

// The owner's frees, at once and much later, change the mean life and not this one.
TEST_F(NumaProfile, TheWaitIsThatOfTheBlocksThatOthersFree) {
  const Profiling profiling(kEveryBlock);
  Worker home(0);
  Worker far(other_node());
  for (unsigned i = 0; i < 3; i++) {
    const std::vector<void*> own = allocated_by(home);
    home([&] { free_all(own); });
  }
  const std::vector<void*> old = allocated_by(home);
  std::this_thread::sleep_for(kWait);
  const auto begin = Clock::now();
  const std::vector<void*> handed = allocated_by(home);
  const auto allocated = Clock::now();
  std::this_thread::sleep_for(kWait);
  const auto before_free = Clock::now();
  far([&] { free_all(handed); });
  const auto freed = Clock::now();
  std::this_thread::sleep_for(3 * kWait);
  home([&] { free_all(old); });
  const ProfileTotals found = profile_totals();
  const double wait = found.remote_lifetimes / ProfileTotals::blocks(found.remote);
  EXPECT_GE(wait, seconds(before_free - allocated));
  EXPECT_LE(wait, seconds(freed - begin));
  const double old_lives = seconds(5 * kWait) * (kBlocks - 1);
  EXPECT_GE(found.lifetimes, found.remote_lifetimes + old_lives);
  count_cases(5 * kBlocks);
}

}  // namespace
}  // namespace near_test

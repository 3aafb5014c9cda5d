// ping_epochs: epochs free while all threads make progress; slots are read for those that stall.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <vector>

#include "every_scheme.h"
#include "support/cases.h"

namespace near_test {
namespace {

using namespace near::reclaim;

class PingEpochs : public testing::Test {
 protected:
  using Domain = domain<ping_epochs>;
  using Handle = Domain::handle_type;

  void SetUp() override { live_objects = 0; }

  static options batches(size_t size) {
    options settings;
    settings.batch_size = size;
    return settings;
  }

  // Operations of all in turn, of one retirement each.
  static void retire_in_turn(std::vector<Handle>& handles, size_t operations) {
    for (size_t i = 0; i < operations; i++) {
      handles[i % handles.size()].pin().retire(new CountedObject);
    }
  }
};

TEST_F(PingEpochs, ReadsNoSlotWhileAllMove) {
  for (const size_t batch : {1u, 64u, 256u, 1024u, 4096u}) {
    for (const size_t number : {1u, 2u, 16u}) {
      Domain domain(batches(batch));
      std::vector<Handle> handles;
      for (size_t i = 0; i < number; i++) handles.push_back(domain.attach());
      const size_t operations = (20 * batch + 3000) * number;
      retire_in_turn(handles, operations);
      const statistics sums = domain.collect();
      EXPECT_EQ(sums.looks, 0u) << "batches of " << batch << ", " << number << " threads";
      EXPECT_GE(sums.epochs, 10u) << "batches of " << batch << ", " << number << " threads";
      EXPECT_GT(sums.freed, operations / 2);
      EXPECT_LE(sums.unreclaimed, sums.bound);
      count_cases();
    }
  }
}

TEST_F(PingEpochs, ReadsSlotsWhileAThreadStallsAndNoLonger) {
  Domain domain(batches(256));
  std::vector<Handle> handles;
  for (int i = 0; i < 2; i++) handles.push_back(domain.attach());
  auto stalls = domain.attach();
  std::atomic<CountedObject*> source{new CountedObject};
  {
    auto guard = stalls.pin();
    guard.protect(0, source);
    handles[0].retire(source.exchange(nullptr));
    uint64_t most = 0;
    for (int i = 0; i < 100; i++) {
      retire_in_turn(handles, 500);
      most = std::max(most, domain.collect().unreclaimed);
    }
    const statistics sums = domain.collect();
    EXPECT_LE(sums.epochs, 2u);
    EXPECT_GE(sums.looks, 50u);
    EXPECT_LE(most, sums.bound);
    EXPECT_GE(live_objects, 1);
    count_cases();
  }
  retire_in_turn(handles, 2000);  // the epoch begins to move
  const statistics before = domain.collect();
  retire_in_turn(handles, 20'000);
  const statistics after = domain.collect();
  EXPECT_EQ(after.looks, before.looks);
  EXPECT_GE(after.epochs, before.epochs + 10);
  count_cases();
}

// No other thread holds the epoch, yet it cannot advance: slots bound what one operation retires.
TEST_F(PingEpochs, KeepsTheBoundInsideOneOperation) {
  Domain domain(batches(64));
  auto handle = domain.attach();
  auto guard = handle.pin();
  for (int i = 0; i < 50'000; i++) {
    guard.retire(new CountedObject);
    if (i % 100 == 0) {
      ASSERT_LE(domain.collect().unreclaimed, domain.collect().bound);
    }
  }
  EXPECT_LT(domain.collect().bound, 2000u);
  EXPECT_GT(domain.collect().looks, 100u);
  count_cases();
}

// Objects that a thread left while another stalls are freed before the other goes on.
TEST_F(PingEpochs, AdoptsWhatThreadsLeftWhileAnotherStalls) {
  Domain domain(batches(64));
  auto stalls = domain.attach();
  auto guard = stalls.pin();
  auto stays = domain.attach();
  std::optional<Handle> leaves = domain.attach();
  for (int i = 0; i < 50; i++) leaves->pin().retire(new CountedObject);
  leaves.reset();
  for (int i = 0; i < 5000; i++) stays.pin().retire(new char);
  EXPECT_EQ(live_objects, 0);
  count_cases();
}

}  // namespace
}  // namespace near_test

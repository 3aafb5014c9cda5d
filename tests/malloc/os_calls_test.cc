// What the common paths cost in calls of the operating system, and that they keep errno.
#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "base/bits.h"
#include "node/memory.h"
#include "support/cases.h"
#include "support/child.h"
#include "support/fake_os.h"
#include "support/pattern.h"
#include "support/threads.h"

namespace near_test {
namespace {

using near::kMiB;

uint64_t all_calls() { return fake_os::calls(OsCall::any); }

class OsCalls : public testing::Test {
 protected:
  void SetUp() override { near_malloc_trim(0); }
  void TearDown() override {
    fake_os::fail_none();
    EXPECT_EQ(near_check(), 0u);
  }

  // The number of system calls that `work` made.
  template <typename Work>
  uint64_t cost_of(Work work) {
    const uint64_t before = all_calls();
    work();
    count_cases();
    return all_calls() - before;
  }
};

void churn(size_t steps, unsigned size_bits, size_t places) {
  Random random(7);
  std::vector<void*> live(places);
  for (size_t i = 0; i < steps; i++) {
    void*& place = live[random.below(places)];
    near_free(place);
    place = near_malloc(random.size_up_to(size_bits));
  }
  for (void* each : live) near_free(each);
}

TEST(OsCallsInChild, PrintsThoseOfTheStart) {
  std::printf("calls of the start: %zu\n", static_cast<size_t>(all_calls()));
  near_free(near_malloc(10));
  std::printf("calls with a block: %zu\n", static_cast<size_t>(all_calls()));
  count_cases();
}

TEST_F(OsCalls, StartingTakesNoneAndTheFirstBlockSix) {
  const Ended ended = run_child({own_path(), "--gtest_filter=OsCallsInChild.*"}, {});
  ASSERT_TRUE(ended.well()) << ended.output;
  const auto number_after = [&](const std::string& words) {
    const size_t at = ended.output.find(words);
    EXPECT_NE(at, std::string::npos) << ended.output;
    return at == std::string::npos ? 0 : std::stoul(ended.output.substr(at + words.size()));
  };
  EXPECT_EQ(number_after("calls of the start: "), 0u);
  // Map descriptors, table and the first chunk, advise on each.
  EXPECT_EQ(number_after("calls with a block: "), 6u);
  count_cases();
}

TEST_F(OsCalls, APairOfMallocAndFreeTakesNone) {
  for (size_t size = 1; size <= 32 * near::kKiB; size += size / 3 + 1) {
    near_free(near_malloc(size));
    EXPECT_EQ(cost_of([&] {
                for (int i = 0; i < 1'000; i++) near_free(near_malloc(size));
              }),
              0u)
        << size;
  }
}

TEST_F(OsCalls, ChurnTakesNextToNoneOnceItHasItsMemory) {
  churn(200'000, 12, 2'000);
  EXPECT_LE(cost_of([&] { churn(200'000, 12, 2'000); }), 10u);
}

TEST_F(OsCalls, GrowingTakesAFewForEveryChunk) {
  std::vector<void*> blocks;
  const uint64_t cost = cost_of([&] {
    for (size_t i = 0; i < 64 * kMiB / 500; i++) blocks.push_back(near_malloc(500));
  });
  EXPECT_LE(cost, 32u * 3) << "32 chunks: commit and advise each, descriptors now and then";
  for (void* block : blocks) near_free(block);
}

TEST_F(OsCalls, LargeBlocksTakeNoneOnceTheLimitIsLearned) {
  const auto cycle = [] {
    void* block = near_malloc(8 * kMiB);
    static_cast<char*>(block)[0] = 1;
    near_free(block);
  };
  for (int i = 0; i < 30; i++) cycle();
  EXPECT_EQ(cost_of([&] {
              for (int i = 0; i < 100; i++) cycle();
            }),
            0u);
}

TEST_F(OsCalls, ReallocInStepsTakesAFewForEveryChunk) {
  const uint64_t cost = cost_of([] {
    void* block = near_malloc(100'000);
    for (size_t size = 200'000; size < 20 * kMiB; size += 100'000)
      block = near_realloc(block, size);
    near_free(block);
  });
  EXPECT_LE(cost, 60u);
}

TEST_F(OsCalls, AThreadTakesNoneWhenAHeapIsParked) {
  on_cpu(0, [] { churn(1'000, 10, 50); });
  EXPECT_LE(cost_of([] { on_cpu(0, [] { churn(1'000, 10, 50); }); }), 1u);
}

TEST_F(OsCalls, AFailedLargeBlockTakesABoundedNumber) {
  fake_os::fail(OsCall::map, 1, true);
  const uint64_t cost = cost_of([] { EXPECT_EQ(near_malloc(4 * near::kGiB), nullptr); });
  EXPECT_LE(cost, 60u);
}

// The second refusal in a row costs the try, and a search of what was freed since the first.
TEST_F(OsCalls, ARefusalIsNotFollowedByAnotherReclaim) {
  std::vector<void*> blocks;
  for (int i = 0; i < 1'000; i++) blocks.push_back(near_malloc(3'000));
  fake_os::fail(OsCall::map, 1, true);
  const auto refuse = [] { return near_malloc(64 * near::kGiB); };
  for (int i = 0; i < 3; i++) EXPECT_EQ(refuse(), nullptr);
  const uint64_t purges = fake_os::calls(OsCall::purge) + fake_os::calls(OsCall::unmap);
  for (int i = 0; i < 100; i++) EXPECT_EQ(refuse(), nullptr);
  EXPECT_EQ(fake_os::calls(OsCall::purge) + fake_os::calls(OsCall::unmap), purges);
  // What is freed meanwhile is found: here a few whole chunks, which must be unmapped under a
  // limit.
  for (void* block : blocks) near_free(block);
  EXPECT_EQ(refuse(), nullptr);
  EXPECT_GT(fake_os::calls(OsCall::purge) + fake_os::calls(OsCall::unmap), purges);
  count_cases(102);
}

// The request is larger than all memory there is: nothing is given up for it.
TEST_F(OsCalls, AnImpossibleSizeCostsNoReclaim) {
  std::vector<void*> blocks;
  for (int i = 0; i < 1'000; i++) blocks.push_back(near_malloc(3'000));
  for (void* block : blocks) near_free(block);
  fake_os::set_address_space_limit(4 * near::kGiB);
  EXPECT_EQ(cost_of([] { EXPECT_EQ(near_malloc(size_t{1} << 50), nullptr); }), 0u);
  fake_os::set_address_space_limit(SIZE_MAX);
}

class Errno : public OsCalls {
 protected:
  void SetUp() override { errno = 77; }
  template <typename Work>
  void expect_kept(const char* what, Work work) {
    errno = 77;
    work();
    EXPECT_EQ(errno, 77) << what;
    count_cases();
  }
};

TEST_F(Errno, IsKeptByFreeAndByAllocationsThatSucceed) {
  for (const size_t size :
       {size_t{1}, size_t{100}, size_t{3'000}, size_t{30'000}, size_t{70'000}, 9 * kMiB}) {
    void* block = nullptr;
    expect_kept("malloc", [&] { block = near_malloc(size); });
    expect_kept("realloc", [&] { block = near_realloc(block, 2 * size); });
    expect_kept("realloc", [&] { block = near_realloc(block, size / 2 + 1); });
    expect_kept("free", [&] { near_free(block); });
    expect_kept("calloc", [&] { block = near_calloc(1, size); });
    expect_kept("free elsewhere", [&] {
      std::thread([&] {
        errno = 77;
        near_free(block);
        EXPECT_EQ(errno, 77) << "the first thing a thread does";
      }).join();
    });
    expect_kept("aligned", [&] { near_free(near_aligned_alloc(4096, size)); });
  }
  expect_kept("free of null", [] { near_free(nullptr); });
  expect_kept("trim", [] { near_malloc_trim(0); });
  expect_kept("check", [] { near_check(); });
  expect_kept("statistics", [] { near_mallinfo2(); });
}

TEST_F(Errno, IsKeptByFreeWhenTheSystemRefusesAll) {
  std::vector<void*> blocks;
  for (size_t i = 0; i < 3'000; i++) blocks.push_back(near_malloc(1 + i * 37 % 90'000));
  fake_os::fail(OsCall::any, 1, true);
  for (void* block : blocks) expect_kept("free", [&] { near_free(block); });
  expect_kept("trim", [] { near_malloc_trim(0); });
  fake_os::fail_none();
}

TEST_F(Errno, IsKeptByAnAllocationThatHadToTryTwice) {
  // The first mapping is refused; giving back what is free, or asking for less, helps. What earlier
  // tests have mapped is used up before.
  std::vector<void*> blocks;
  fake_os::fail(OsCall::map, 1, false);
  const uint64_t refused = fake_os::refusals();
  while (fake_os::refusals() == refused && blocks.size() < 2'000) {
    void* block = nullptr;
    expect_kept("malloc", [&] { block = near_malloc(8 * kMiB); });
    ASSERT_NE(block, nullptr);
    blocks.push_back(block);
  }
  EXPECT_GT(fake_os::refusals(), refused);
  for (void* block : blocks) near_free(block);
}

}  // namespace
}  // namespace near_test

// The profiler's stacks are those of the compiler's own unwinder, through functions of every shape:
// with variables on the stack of any size, aligned, recursive, called by the C library, with frames
// that have a destructor to run, and at the start of a thread.
#include "profile/stack.h"

#include <alloca.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "platform/clock.h"
#include "profile/known_rules.h"
#include "profile/tables.h"
#include "support/cases.h"
#include "unwound.h"

namespace near_test {
namespace {

// Compares the two stacks from this function's caller on.
[[gnu::noinline]] void compare() {
  Frames ours;
  Frames theirs;
  ours.count = near::profile::capture_stack(ours.of, kMostFrames);
  unwind(theirs);
  ASSERT_GE(ours.count, 3u);
  // Its rules are known now.
  Frames again;
  again.count = near::profile::capture_stack(again.of, kMostFrames);
  ASSERT_EQ(again.count, ours.count);
  for (unsigned i = 1; i < ours.count; i++) EXPECT_EQ(again.of[i], ours.of[i]);
  // The first frame of each is this function, at another place.
  EXPECT_EQ(ours.count, theirs.count);
  for (unsigned i = 1; i < std::min(ours.count, theirs.count); i++) {
    EXPECT_EQ(ours.of[i], theirs.of[i]) << "frame " << i;
  }
  count_cases();
}

class ProfileStack : public testing::Test {
 protected:
  void SetUp() override { near::profile::prepare_stacks(false); }
};

TEST_F(ProfileStack, OfATest) { compare(); }

[[gnu::noinline]] int recurse(int depth, std::string text) {
  if (depth == 0) {
    compare();
    return static_cast<int>(text.size());
  }
  return recurse(depth - 1, text + "x") + 1;
}

TEST_F(ProfileStack, OfRecursion) {
  for (const int depth : {1, 10, 30}) EXPECT_EQ(recurse(depth, ""), 2 * depth);
}

TEST_F(ProfileStack, IsCutAtItsMostFrames) {
  std::function<void(int)> deep = [&](int depth) {
    if (depth > 0) return deep(depth - 1);
    uintptr_t frames[kMostFrames];
    EXPECT_EQ(near::profile::capture_stack(frames, kMostFrames), kMostFrames);
    EXPECT_EQ(near::profile::capture_stack(frames, 1), 1u);
  };
  deep(100);
  count_cases();
}

[[gnu::noinline]] void with_room(size_t bytes) {
  auto* room = static_cast<volatile char*>(alloca(bytes));
  room[0] = 1;
  room[bytes - 1] = 1;
  compare();
  room[0] = 2;
}

TEST_F(ProfileStack, OfFramesOfAnySize) {
  for (size_t bytes = 16; bytes <= 1 << 20; bytes *= 4) with_room(bytes);
}

[[gnu::noinline]] void with_alignment(size_t bytes) {
  alignas(256) volatile char aligned[512];
  aligned[0] = 1;
  with_room(bytes);
  EXPECT_EQ(aligned[0], 1);
}

TEST_F(ProfileStack, OfAlignedFrames) {
  for (size_t bytes = 16; bytes <= 4096; bytes *= 4) with_alignment(bytes);
}

int compare_in_order(const void* a, const void* b) {
  static unsigned calls = 0;
  if (calls++ % 16 == 0) compare();
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

TEST_F(ProfileStack, ThroughTheCLibrary) {
  std::vector<int> numbers;
  for (int i = 0; i < 100; i++) numbers.push_back(i * 7919 % 101);
  qsort(numbers.data(), numbers.size(), sizeof(int), compare_in_order);
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST_F(ProfileStack, OfAThread) {
  std::thread([] { compare(); }).join();
  std::thread([] { recurse(5, ""); }).join();
}

// One of them has the rules that are known; the others find theirs anew.
TEST_F(ProfileStack, OfThreadsAtTheSameTime) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([] {
      for (int round = 0; round < 200; round++) recurse(round % 8 + 1, "");
    });
  }
  for (std::thread& each : threads) each.join();
}

struct ComparesAtItsEnd {
  ~ComparesAtItsEnd() { compare(); }
};

[[gnu::noinline]] void throw_through(int depth) {
  const ComparesAtItsEnd guard;
  if (depth == 0) throw 1;
  throw_through(depth - 1);
}

TEST_F(ProfileStack, WhileAnExceptionPasses) { EXPECT_THROW(throw_through(3), int); }

TEST_F(ProfileStack, CodeWithoutTablesIsUnknown) {
  static char no_code[64];
  near::Registers registers;
  registers.read();
  near::profile::KnownRules known(near::coarse_now_ms());
  registers.pc = reinterpret_cast<uintptr_t>(&registers);
  EXPECT_EQ(near::profile::step_by_tables(registers, known), near::profile::Step::unknown);
  registers.pc = reinterpret_cast<uintptr_t>(no_code);
  EXPECT_EQ(near::profile::step_by_tables(registers, known), near::profile::Step::unknown);
  EXPECT_NE(known.find_tested(registers.pc), nullptr) << "which is kept";
  EXPECT_EQ(near::profile::step_by_tables(registers, known), near::profile::Step::unknown);
  count_cases(3);
}

TEST_F(ProfileStack, PagesThatAWalkReadAreTakenForReadableForAWhile) {
  const uint64_t now_ms = near::coarse_now_ms() + 10'000;  // a period of its own
  constexpr size_t kPage = 4096;
  alignas(kPage) static char memory[2 * kPage];  // as a stack
  near::Registers walked;
  walked.read();
  EXPECT_EQ(walked.readable.end - walked.readable.start, kPage);
  EXPECT_TRUE(walked.readable.has(walked.stack()));
  const auto start = reinterpret_cast<uintptr_t>(memory);
  const near::Registers::Readable page{start, start + kPage};
  walked.value[near::Registers::kStack] = start + sizeof(uintptr_t);
  walked.readable = page;
  const auto trusted = [&](uint64_t when_ms, uintptr_t further) {
    near::Registers registers = walked;
    registers.readable = page;
    registers.value[near::Registers::kStack] += further;
    near::profile::KnownRules(when_ms).trust_stack(registers);
    return registers.readable;
  };
  uintptr_t word;
  ASSERT_TRUE(walked.read_word(page.end, word));
  near::profile::KnownRules(now_ms).keep_stack(walked);
  EXPECT_EQ(trusted(now_ms + near::profile::KnownRules::kTrustMs / 2, 0).end, page.end + kPage);
  constexpr uintptr_t kElsewhere = 1 << 30;
  EXPECT_EQ(trusted(now_ms, kElsewhere).end, page.end);
  EXPECT_EQ(trusted(now_ms + 2 * near::profile::KnownRules::kTrustMs, 0).end, page.end);
  EXPECT_FALSE(walked.read_word(0, word));
  EXPECT_TRUE(walked.read_word(page.start, word));
  walked.distrust();
  EXPECT_EQ(walked.readable.start, page.start);
  walked.value[near::Registers::kStack] = kElsewhere;
  walked.distrust();
  EXPECT_FALSE(walked.readable.has(kElsewhere));
  count_cases(10);
}

// Wrong registers end the walk: at each depth one of them is changed before the next steps.
TEST_F(ProfileStack, WrongRegistersEndIt) {
  for (unsigned changed = 0; changed < near::Registers::kCount; changed++) {
    for (const uintptr_t value : {uintptr_t{0}, uintptr_t{1}, uintptr_t{8}, ~uintptr_t{7}}) {
      near::Registers registers;
      registers.read();
      near::profile::KnownRules known(near::coarse_now_ms());
      for (unsigned step = 0; step < 70; step++) {
        if (step == 1) registers.value[changed] = value;
        if (near::profile::step_by_tables(registers, known) != near::profile::Step::done) break;
      }
      count_cases();
    }
  }
}

[[gnu::noinline]] unsigned by_frames(uintptr_t* frames) {
  const unsigned count = near::profile::capture_stack(frames, kMostFrames);
  asm volatile("" ::: "memory");
  return count;
}

TEST_F(ProfileStack, ByFramePointersEnds) {
  near::profile::prepare_stacks(true);
  uintptr_t frames[kMostFrames];
  const unsigned count = by_frames(frames);
  near::profile::prepare_stacks(false);
  ASSERT_GE(count, 1u);
  EXPECT_LT(frames[0] - reinterpret_cast<uintptr_t>(&by_frames), 200u);
  count_cases();
}

}  // namespace
}  // namespace near_test

// Samples and stacks of signal handlers. A handler that interrupted the program's own code may
// allocate, and is sampled; its stack ends where the system returns to the interrupted code
// (docs/decisions/0022-profiler.md). One that interrupted the allocator is not sampled.
#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <iterator>

#include "profile/stack.h"
#include "profiling.h"
#include "support/cases.h"
#include "sync/inside.h"
#include "unwound.h"

namespace near_test {
namespace {

// --- stacks of a handler that interrupts code anywhere ---

volatile sig_atomic_t handled = 0;
volatile sig_atomic_t short_stacks = 0;
volatile sig_atomic_t wrong_frames = 0;

// Compares the handler's caller, which is the system's code that returns to what was interrupted.
// That code has no unwind tables in the emulator, so there the profiler goes on by frame pointers.
void compare_in_handler(int) {
  Frames ours;
  Frames theirs;
  ours.count = near::profile::capture_stack(ours.of, kMostFrames);
  unwind(theirs);
  if (ours.count < 2 || theirs.count < 2) {
    short_stacks = short_stacks + 1;
  } else if (ours.of[1] != theirs.of[1]) {
    wrong_frames = wrong_frames + 1;
  }
  handled = handled + 1;
}

volatile uintptr_t frames_by_pointers = 0;

void follow_frame_pointers(int) {
  uintptr_t frames[kMostFrames];
  frames_by_pointers = frames_by_pointers + near::profile::capture_stack(frames, kMostFrames);
  handled = handled + 1;
}

// Work with many starts and ends of functions.
[[gnu::noinline]] unsigned recurse(unsigned depth) {
  volatile unsigned sum = depth;
  if (depth > 1) sum = sum + recurse(depth - 1) + recurse(depth - 2);
  return sum;
}

// Installs a handler for its lifetime.
class Handler {
 public:
  Handler(int number, void (*handle)(int)) : number_(number) {
    struct sigaction action{};
    action.sa_handler = handle;
    sigaction(number, &action, &before_);
  }
  ~Handler() { sigaction(number_, &before_, nullptr); }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

 private:
  int number_;
  struct sigaction before_;
};

// Works until the handler ran often; ThreadSanitizer runs handlers in usleep only.
void interrupt_often(void (*handle)(int)) {
  const auto most = static_cast<int>(scaled(200));
  handled = 0;
  const Handler handler(SIGALRM, handle);
  const itimerval often{{0, 500}, {0, 500}};
  const itimerval never{};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  while (handled < most) {
    recurse(18);
    usleep(0);
  }
  ASSERT_EQ(setitimer(ITIMER_REAL, &never, nullptr), 0);
  count_cases(static_cast<size_t>(most));
}

TEST(ProfileHandler, ItsStackLeadsToWhatInterrupted) {
  near::profile::prepare_stacks(false);
  interrupt_often(compare_in_handler);
  EXPECT_EQ(short_stacks, 0);
  EXPECT_EQ(wrong_frames, 0);
}

// Frame pointers may lead anywhere from there: what is tested is that each walk ends.
TEST(ProfileHandler, ItsStackByFramePointersEnds) {
  near::profile::prepare_stacks(true);
  interrupt_often(follow_frame_pointers);
  near::profile::prepare_stacks(false);
  EXPECT_LE(frames_by_pointers, static_cast<uintptr_t>(handled) * kMostFrames);
}

// --- samples ---

constexpr size_t kHandlerSizes[] = {100, 3000, 100'000};
volatile size_t asked_size;
void* volatile taken;

[[gnu::noinline, gnu::section("near_handler")]] void allocate_in_handler(int) {
  taken = near_malloc(asked_size);
}
// The linker says where the handler's section is.
extern "C" const char __start_near_handler[];
extern "C" const char __stop_near_handler[];

bool leads_through_handler(const near::profile::SiteCopy& copy) {
  const auto start = reinterpret_cast<uintptr_t>(__start_near_handler);
  const auto end = reinterpret_cast<uintptr_t>(__stop_near_handler);
  return std::any_of(copy.frames, copy.frames + copy.site.depth,
                     [&](uintptr_t frame) { return frame > start && frame <= end; });
}

uint64_t samples_of_handler() {
  uint64_t samples = 0;
  near::profile::SiteCopy copy;
  for (uint32_t i = 0; near::profile::copy_site(i, copy); i++) {
    if (leads_through_handler(copy)) samples += copy.site.samples;
  }
  return samples;
}

// Allocates in a handler, each size so many times; `interrupted` calls raise. The allocator has
// such memory before: the system of the tests takes some itself when it gives any, and
// ThreadSanitizer forbids that in a handler.
template <typename Interrupted>
void allocate_in_handlers(unsigned times, Interrupted interrupted) {
  const Handler handler(SIGUSR1, allocate_in_handler);
  for (const size_t size : kHandlerSizes) {
    asked_size = size;
    for (unsigned i = 0; i < times; i++) {
      near_free(near_malloc(size));
      interrupted();
      near_free(taken);
      count_cases();
    }
  }
}

TEST(ProfileHandler, IsSampledIfItInterruptedTheProgram) {
  constexpr unsigned kTimes = 20;
  const Profiling profiling(kEveryBlock);
  ASSERT_TRUE(profiling.started());
  allocate_in_handlers(kTimes, [] {
    ASSERT_EQ(raise(SIGUSR1), 0);
    ASSERT_NE(taken, nullptr);
  });
  EXPECT_EQ(samples_of_handler(), kTimes * std::size(kHandlerSizes));
}

TEST(ProfileHandler, IsNotSampledIfItInterruptedTheAllocator) {
  const auto interrupted = [](auto then) {
    const near::Inside about_to_take_locks;  // as the allocator's slow paths are
    then();
  };
  const Profiling profiling(kEveryBlock);
  ASSERT_TRUE(profiling.started());
  interrupted([] { near_free(near_malloc(1)); });
  allocate_in_handlers(20, [&] { interrupted([] { ASSERT_EQ(raise(SIGUSR1), 0); }); });
  EXPECT_EQ(samples_of_handler(), 0u);
}

// A sampled block lies in a cell that may be larger. A handler that interrupted the allocator
// cannot ask how large the block is, and may use the cell.
TEST(ProfileHandler, WhatItReallocatesKeepsItsBytes) {
  constexpr size_t kSize = 3000;
  constexpr size_t kMore = 3500;  // more than the block has, and not more than the cell
  const Profiling profiling(kEveryBlock);
  ASSERT_TRUE(profiling.started());
  void* block = sampled(kSize);
  memset(block, 1, kSize);
  {
    const near::Inside about_to_take_locks;
    block = near_realloc(block, kMore);
    ASSERT_NE(block, nullptr);
    memset(static_cast<char*>(block) + kSize, 1, kMore - kSize);
  }
  block = near_realloc(block, 4 * kMore);
  for (size_t i = 0; i < kMore; i++) ASSERT_EQ(static_cast<char*>(block)[i], 1) << i;
  near_free(block);
  count_cases();
}

}  // namespace
}  // namespace near_test

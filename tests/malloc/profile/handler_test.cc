// Samples and stacks of signal handlers. A handler that interrupted the program's own code may
// allocate, and is sampled; its stack ends where the system returns to the interrupted code
// (docs/decisions/0022-profiler.md). One that interrupted the allocator is not sampled.
#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>
#include <sys/time.h>
#include <unistd.h>
#include <unwind.h>

#include <csignal>
#include <iterator>

#include "profile/stack.h"
#include "profiling.h"
#include "support/cases.h"
#include "sync/inside.h"

namespace near_test {
namespace {

constexpr unsigned kMost = 64;

// --- stacks of a handler that interrupts code anywhere ---

struct Frames {
  uintptr_t of[kMost];
  unsigned count = 0;
};

_Unwind_Reason_Code add(struct _Unwind_Context* context, void* data) {
  auto& frames = *static_cast<Frames*>(data);
  const uintptr_t address = _Unwind_GetIP(context);
  if (address == 0 || frames.count == kMost) return _URC_END_OF_STACK;
  frames.of[frames.count++] = address;
  return _URC_NO_REASON;
}

volatile sig_atomic_t handled = 0;
volatile sig_atomic_t short_stacks = 0;
volatile sig_atomic_t wrong_frames = 0;

// Compares the handler's caller, which is the system's code that returns to what was interrupted.
// That code has no unwind tables in the emulator, so there the profiler goes on by frame pointers.
void compare_in_handler(int) {
  Frames ours;
  Frames theirs;
  ours.count = near::profile::capture_stack(ours.of, kMost);
  _Unwind_Backtrace(add, &theirs);
  if (ours.count < 2 || theirs.count < 2) {
    short_stacks = short_stacks + 1;
  } else if (ours.of[1] != theirs.of[1]) {
    wrong_frames = wrong_frames + 1;
  }
  handled = handled + 1;
}

volatile uintptr_t frames_by_pointers = 0;

void follow_frame_pointers(int) {
  uintptr_t frames[kMost];
  frames_by_pointers = frames_by_pointers + near::profile::capture_stack(frames, kMost);
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

TEST(ProfileHandler, ItsStackByFramePointersEnds) {
  near::profile::prepare_stacks(true);
  interrupt_often(follow_frame_pointers);
  near::profile::prepare_stacks(false);
  EXPECT_GE(frames_by_pointers, static_cast<uintptr_t>(handled));
}

// --- samples ---

constexpr size_t kSizes[] = {100, 3000, 100'000};
volatile size_t wanted;
void* volatile taken;

[[gnu::noinline]] void allocate_in_handler(int) { taken = near_malloc(wanted); }

// The samples of sites whose stack leads through the handler.
uint64_t samples_of_handler() {
  constexpr uintptr_t kCode = 96;  // the function is not longer
  uint64_t samples = 0;
  near::profile::SiteCopy copy;
  for (uint32_t i = 0; near::profile::copy_site(i, copy); i++) {
    for (unsigned frame = 0; frame < copy.site.depth; frame++) {
      const auto start = reinterpret_cast<uintptr_t>(&allocate_in_handler);
      if (copy.frames[frame] - start < kCode) samples += copy.site.samples;
    }
  }
  return samples;
}

// Allocates in a handler, each size so many times; `interrupted` calls raise. The allocator has
// such memory before: the system of the tests takes some itself when it gives any, and
// ThreadSanitizer forbids that in a handler.
template <typename Interrupted>
void allocate_in_handlers(unsigned times, Interrupted interrupted) {
  const Handler handler(SIGUSR1, allocate_in_handler);
  for (const size_t size : kSizes) {
    wanted = size;
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
  const Profiling profiling(1);
  ASSERT_TRUE(profiling.started());
  allocate_in_handlers(kTimes, [] {
    ASSERT_EQ(raise(SIGUSR1), 0);
    ASSERT_NE(taken, nullptr);
  });
  EXPECT_EQ(samples_of_handler(), kTimes * std::size(kSizes));
}

TEST(ProfileHandler, IsNotSampledIfItInterruptedTheAllocator) {
  const auto interrupted = [](auto then) {
    const near::Inside about_to_take_locks;  // as the allocator's slow paths are
    then();
  };
  const Profiling profiling(1);
  ASSERT_TRUE(profiling.started());
  interrupted([] { near_free(near_malloc(1)); });
  allocate_in_handlers(20, [&] { interrupted([] { ASSERT_EQ(raise(SIGUSR1), 0); }); });
  EXPECT_EQ(samples_of_handler(), 0u);
}

}  // namespace
}  // namespace near_test

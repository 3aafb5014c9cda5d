// The heavy fence where the kernel refuses membarrier(2) after it worked: a filter was installed.
//
// By then threads may have pinned without a fence. A thread that was stopped between its decision
// to go without and its store may pin so at any time later. So a switch to fences at pins would
// never be complete: all pins of the domain stay as they are, and a wait replaces the membarrier
// [Morrison15]. At a pin a thread stores S, and then loads L, with only a compiler fence between
// them. The heavy fence is a full fence, then the wait, then the look at S.
// - L was performed after the heavy fence began: it finds what this thread wrote before.
// - L was performed before. S comes before L in program order, so it waits at most in its
//   processor, for older instructions and a cache line: microseconds. An interrupt in between
//   discards a load that has not retired, which is then performed again, later; and a processor
//   that switches to another thread, a hypervisor or idle empties its store buffer meanwhile.
//   After kDrainTime S is visible.
// No architecture promises that a store waits less than kDrainTime in a processor; but processors
// do meet it, by a factor of some hundred.
// Thread-safety: any thread.
#include "nearmalloc/reclaim/impl/fence.hpp"

#include <pthread.h>
#include <sched.h>

#include <ctime>

#include "nearmalloc/reclaim/impl/owner_lock.hpp"
#include "platform/clock.h"
#include "platform/fence.h"
#include "platform/saved_errno.h"
#include "reclaim/process.h"

namespace near::reclaim::impl {
namespace {

constexpr uint64_t kDrainTime = 1'000'000;  // ns

Atomic<uint64_t> fences{0};
pthread_once_t once = PTHREAD_ONCE_INIT;
Atomic<bool> works{false};

// The filter may refuse the sleep as well; then the loop reads the clock until the time has passed.
void wait_for_stores() noexcept {
  const SavedErrno saved;
  const uint64_t end = clock_ns(CLOCK_MONOTONIC) + kDrainTime;
  do {
    const timespec pause{0, kDrainTime};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
  } while (clock_ns(CLOCK_MONOTONIC) < end);
}

}  // namespace

bool register_membarrier() noexcept { return near::register_membarrier(); }

bool membarrier_works() noexcept {
  // relaxed: the thread that makes a domain publishes the domain with it
  pthread_once(&once, [] { works.store(register_membarrier(), kRelaxed); });
  return works.load(kRelaxed);  // relaxed: a stale true costs heavy_fence a wait
}

void heavy_fence(bool asymmetric) noexcept {
  fences.fetch_add(1, kRelaxed);  // relaxed: a counter
  if (near::heavy_fence(asymmetric)) return;
  works.store(false, kRelaxed);  // relaxed: for domains that are made later
  wait_for_stores();
}

uint64_t heavy_fences() noexcept { return fences.load(kRelaxed); }  // relaxed: a counter

void yield() noexcept { sched_yield(); }

}  // namespace near::reclaim::impl

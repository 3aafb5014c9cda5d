#include "nearmalloc/reclaim/impl/fence.hpp"

#include <pthread.h>
#include <sched.h>

#include "nearmalloc/reclaim/impl/owner_lock.hpp"
#include "platform/fence.h"
#include "reclaim/process.h"

namespace near::reclaim::impl {
namespace {

Atomic<uint64_t> fences{0};
pthread_once_t once = PTHREAD_ONCE_INIT;
bool works = false;  // constant after `once`

}  // namespace

bool register_membarrier() noexcept { return near::register_membarrier(); }

bool membarrier_works() noexcept {
  pthread_once(&once, [] { works = register_membarrier(); });
  return works;
}

void heavy_fence(bool asymmetric) noexcept {
  fences.fetch_add(1, kRelaxed);  // relaxed: a counter
  if (near::heavy_fence(asymmetric)) return;
  fail_with("membarrier worked before and is refused now: nothing can be freed safely");
}

uint64_t heavy_fences() noexcept { return fences.load(kRelaxed); }  // relaxed: a counter

void yield() noexcept { sched_yield(); }

}  // namespace near::reclaim::impl

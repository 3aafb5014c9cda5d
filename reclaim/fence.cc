#include "nearmalloc/reclaim/impl/fence.hpp"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nearmalloc/reclaim/impl/owner_lock.hpp"
#include "platform/saved_errno.h"
#include "reclaim/process.h"

namespace near::reclaim::impl {
namespace {

Atomic<uint64_t> fences{0};
pthread_once_t once = PTHREAD_ONCE_INIT;
bool works = false;  // constant after `once`

bool membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

bool register_membarrier() noexcept {
  const SavedErrno saved;
  return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

bool membarrier_works() noexcept {
  pthread_once(&once, [] { works = register_membarrier(); });
  return works;
}

void heavy_fence(bool asymmetric) noexcept {
  fences.fetch_add(1, kRelaxed);                        // relaxed: a counter
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs: asymmetric-fence
  if (!asymmetric) return;
  const SavedErrno saved;
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  fail_with("membarrier worked before and is refused now: nothing can be freed safely");
}

uint64_t heavy_fences() noexcept { return fences.load(kRelaxed); }  // relaxed: a counter

void yield() noexcept { sched_yield(); }

}  // namespace near::reclaim::impl

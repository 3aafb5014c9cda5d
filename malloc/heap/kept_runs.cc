// How a heap keeps the runs of freed large blocks (heap/run_slots.h, heap/run_cache.h).
// Thread-safety: the owner's thread.
#include "heap/heap.h"
#include "node/memory.h"

namespace near {

Span* Heap::take_run(uint32_t slices) {
  count_visit();
  last_runs_.count_missed(slices);
  if (!runs_.any()) return nullptr;
  const LockGuard guard(lock);
  return runs_.take(slices);
}

// Keeps a run that another one displaced, or gives it to the shard.
void Heap::keep_older(Span& run) {
  if (!runs_.wants(run)) return shard_->give(&run);
  // A thread that frees the blocks of others has a negative sum. relaxed: a policy
  const auto sum = static_cast<int64_t>(large.bytes.load(kRelaxed));
  const auto live = static_cast<uint64_t>(sum > 0 ? sum : 0);
  const LockGuard guard(lock);
  runs_.add(run);
  while (Span* surplus = runs_.take_surplus(live, last_runs_.slices())) {
    shard_->give(surplus);
  }
}

}  // namespace near

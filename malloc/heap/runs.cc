// The runs of freed large blocks that a heap keeps (heap/run_slots.h, heap/run_cache.h).
// Thread-safety: `take_run` and `keep_older`: the owner's thread, without the lock.
// `drop_unused_runs`: any thread, with it.
#include "heap/heap.h"
#include "node/memory.h"

namespace near {

void Heap::drop_unused_runs() {
  last_runs_.take_unused([](Span& run) { shard_of(run).give(&run); });
  if (runs_.ends_round_unused()) {
    while (Span* run = runs_.take_oldest()) shard_of(*run).give(run);
  }
}

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

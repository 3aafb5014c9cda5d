// All heaps: those of threads, and the parked ones, which the next threads take. [Podolsky13
// "__nalloc": an exit leaves a thread's arenas to themselves; here they go on]
// Invariant: a heap is one thread's, or parked, or lost in a fork with its thread.
// Thread-safety: any thread; nobody waits for a lock.
#pragma once

#include "designs/nalloc/heap.h"

namespace near::nalloc {

class Heaps {
 public:
  // A parked heap, or a new one; null if memory is refused.
  Heap* take();
  void park(Heap* heap);

  // Collects what is free in the parked heaps.
  void collect_parked();

  // Calls visit(heap) for every heap there is.
  template <typename Visit>
  void for_each(Visit visit) const {
    // pairs: heap-made
    for (Heap* heap = made_.load(kAcquire); heap != nullptr; heap = heap->registered) visit(*heap);
  }

 private:
  Heap* take_parked();
  Heap* make();

  TaggedStack parked_;
  Atomic<Heap*> made_{nullptr};  // the last one made
};

extern Heaps heaps NEAR_HIDDEN;

}  // namespace near::nalloc

// All heaps: those of threads, and the parked ones, which later threads take. In the published
// design an ended thread's arenas are never used again. [Podolsky13 "__nalloc"]
// Invariant: a heap is one thread's, or parked, or lost in a fork with its thread.
// Thread-safety: any thread, without a lock.
#pragma once

#include "designs/nalloc/heap.h"

namespace near::design::nalloc {

class Heaps {
 public:
  // A parked heap, or a new one; null if memory is refused.
  Heap* take();
  void park(Heap* heap);

  // Collects the free blocks and pages of the parked heaps.
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
  Atomic<Heap*> made_{nullptr};  // the newest heap
};

extern Heaps heaps NEAR_HIDDEN;

}  // namespace near::design::nalloc

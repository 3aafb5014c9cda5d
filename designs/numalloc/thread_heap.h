// PerThreadHeap: a thread's freelist for each class, without a lock. [Yang23 §3.1]
//
// It is stored in the metadata of its node, and always belongs to that node: a thread that moves to
// another node changes its heap. A thread that ends gives its objects to the node and its heap to
// the next thread there, even if it is never joined.
// Invariant: every object in its lists is of its node, unless the switch origin_aware is off.
// Thread-safety: the thread that has it; idle heaps as the `heaps` of their node say.
#pragma once

#include <cstdint>

#include "base/compiler.h"
#include "designs/numalloc/bag.h"
#include "designs/numalloc/size_class.h"
#include "designs/numalloc/thread_list.h"
#include "designs/shared/heap_list.h"

namespace near::design::numalloc {

struct NodeHeap;

// A thread's own memory under sharing=per_thread, the paper's opposite of incremental sharing: huge
// pages that no other thread cuts.
struct PrivatePages {
  char* next;
  char* end;
  Bag bags[kClasses];
  Atomic<uint64_t> carved[kClasses];  // objects; a statistic
};

struct alignas(64) ThreadHeap {
  uintptr_t small_start = 0;           // of its node's small half (region.h)
  uintptr_t small_size = 0;            // 0: no object is of this heap's node
  const uint8_t* bag_class = nullptr;  // the table of its node
  NodeHeap* node = nullptr;
  PrivatePages* pages = nullptr;
  HeapLinks<ThreadHeap> links;
  ThreadList lists[kClasses];
};

// The heap of threads that have none: every list is empty, and no object is of its node.
NEAR_HIDDEN extern ThreadHeap no_heap;
NEAR_HIDDEN extern __thread ThreadHeap* current_heap NEAR_TLS_INITIAL_EXEC;

// A heap of this node, or of the nearest node that has memory for one; null if none has.
ThreadHeap* acquire_heap(unsigned node);
// Gives the heap's objects to its node, and the heap to the next thread.
void give_back(ThreadHeap* heap);

// A batch from the thread's own huge pages; empty if refused.
Sublist carve_private(ThreadHeap& heap, unsigned size_class);

// Called in the child of a fork, where only the calling thread is left.
void adopt_heaps_after_fork();

struct HeapCounts {
  uint64_t made = 0;
  uint64_t reused = 0;
};
HeapCounts heap_counts();
void count_move();  // a thread changed its heap

}  // namespace near::design::numalloc

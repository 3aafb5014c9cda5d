// PerNodeHeap: a node's freelists, its never-allocated memory, its metadata. [Yang23 §3.1]
//
// It is stored at the start of its node's metadata.
// Thread-safety: any thread; each part has its own lock.
#pragma once

#include "designs/numalloc/big.h"
#include "designs/numalloc/half.h"
#include "designs/numalloc/metadata.h"
#include "designs/numalloc/region.h"
#include "designs/numalloc/small.h"
#include "designs/shared/heap_list.h"

namespace near::design::numalloc {

struct ThreadHeap;

struct NodeHeap {
  unsigned node = 0;
  Metadata metadata;
  SmallHeap small[kClasses];
  BigHeap big;

  HeapList<ThreadHeap> heaps{kMiddleRank};

  Mutex small_lock{kInnerRank};  // guards the next two
  Half small_half;
  uint64_t private_pages = 0;  // huge pages that threads took for themselves

  // Bags for a run of objects of a class, marked with that class in the table. Null if refused.
  void* take_bags(size_t bytes, unsigned size_class);
  // A huge page for one thread; its bags have no class yet. Null if refused.
  void* take_private_page();

  void lock_for_fork();
  void unlock_for_fork();
};

// Indexed by node; null beyond the last.
NEAR_HIDDEN extern NodeHeap* node_heaps[kMaxNodes];

// Requires: reserve_regions. False if memory is refused; a later call continues.
bool make_node_heaps();

}  // namespace near::design::numalloc

// Blocks of a node that the caller names, and heaps that the program makes.
//
// The blocks come from shared heaps (heap/registry.h): threads allocate from these under their
// lock, and free into them by remote frees. All spans of such a heap lie on its node, so each of
// its blocks lies on that node, even if the block was freed and reused before.
// Thread-safety: any thread; no thread may use a bound heap while it ends.
#pragma once

#include <cstddef>

#include "base/atomic.h"
#include "heap/heap.h"

namespace near {

// What to do if the node has no memory.
enum class NodePolicy : bool { advisory, strict };

// Returns a block of `node` at a multiple of `alignment`, a power of two. If the node has no
// memory: if strict, null with ENOMEM, counted (NodeCounters::refused); else a block of the nearest
// node that has some, counted as a spill.
void* allocate_on(unsigned node, size_t alignment, size_t size, NodePolicy policy);

// A heap that the program made: one shared heap for each node that it serves. Allocations go to the
// nodes in turn.
struct BoundHeap {
  NodePolicy policy;
  unsigned first;  // the first node
  unsigned count;  // number of nodes
  Atomic<uint32_t> turn;
  Heap* heaps[kMaxNodes];  // the first `count`
};

// Makes a heap for nodes `first` to `first` + `count` - 1. Null with ENOMEM.
BoundHeap* make_bound_heap(unsigned first, unsigned count, NodePolicy policy);

// Returns a block of the heap's next node, in the same way as allocate_on.
void* allocate_from(BoundHeap& bound, size_t alignment, size_t size);

// Ends the heap. Its blocks stay valid; threads of its nodes reuse its memory.
void end_bound_heap(BoundHeap* bound);

}  // namespace near

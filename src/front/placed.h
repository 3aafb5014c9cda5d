// Blocks of a node that the caller names, and heaps that the program makes.
//
// They come from heaps that are shared (heap/registry.h): used under their lock, freed into by
// everybody as remote frees are. All spans of such a heap lie on its node, so that a block is where
// it was asked for whatever was freed and reused before.
// Thread-safety: any thread; nobody uses a bound heap while it ends.
#pragma once

#include <cstddef>

#include "base/atomic.h"
#include "heap/heap.h"

namespace near {

// What to do if the node has no memory.
enum class Placement : bool { advisory, strict };

// A block of `node` at a multiple of `alignment`, a power of two. If the node has none: null with
// ENOMEM if it is strict, and counted (NodeCounters::refused); else from another by distance,
// counted as a spill.
void* allocate_on(unsigned node, size_t alignment, size_t size, Placement placement);

// One heap on each node that it serves, in turn.
struct BoundHeap {
  Placement placement;
  unsigned first;  // node
  unsigned count;  // of nodes
  Atomic<uint32_t> turn;
  Heap* heaps[kMaxNodes];  // the first `count`
};

// For nodes `first` to `first` + `count` - 1. Null with ENOMEM.
BoundHeap* make_bound_heap(unsigned first, unsigned count, Placement placement);

// A block of the heap's next node, as allocate_on.
void* allocate_from(BoundHeap& bound, size_t alignment, size_t size);

// Blocks stay valid. Threads of the nodes get what the heap has.
void end_bound_heap(BoundHeap* bound);

}  // namespace near

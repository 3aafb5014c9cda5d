// All heaps, by number, and those that have no thread now.
//
// Heaps are type-stable: never freed, so a remote free may use one whose thread is gone. A thread
// that ends parks its heap whole; the next thread of the node takes it whole. Spans of parked heaps
// are also adopted one by one by heaps of the same node that run out of blocks.
// Invariant: a heap is parked, or has a thread, or is held by someone who took it from the parked
// ones and holds its lock, or is shared: used by any thread, under its lock alone. Shared are the
// late heap of each node (for threads that gave theirs up, or could not get one), the placed heap
// of each node (for blocks of a node that the caller names) and the bound heaps that the program
// makes.
// Who may touch it: any thread.
#pragma once

#include <cstdint>

#include "heap/heap.h"

namespace near {

inline constexpr unsigned kEveryNode = kMaxNodes;
inline constexpr uint32_t kMaxHeaps = 1 << 16;  // a heap's number has 16 bits in RemoteList

// So many of the numbers are kept for the late and the placed heap of each node: a thread for which
// there is no other heap is served by the late one.
inline constexpr uint32_t kKeptHeaps = 2 * kMaxNodes;

// How many heaps there may be, of every kind. Tests lower it.
extern NEAR_HIDDEN Atomic<uint32_t> most_heaps;

// A heap for the calling thread on `node`: a parked one, or a new one; null if memory is refused,
// or there are as many as there may be.
Heap* take_heap(unsigned node);

// The calling thread is done with its heap.
void park_heap(Heap* heap);

// The heap of `node` for threads without one. Use under its lock. Null if memory is refused.
Heap* late_heap(unsigned node);

// The heap of `node` for callers who name that node: all its spans lie there. Use under its lock.
// Null if memory is refused.
Heap* placed_heap(unsigned node);

// Another such heap, for the caller to share with whom it likes; it ends by park_heap.
Heap* take_bound_heap(unsigned node);

Heap* heap_by_id(uint32_t id);

// A span with free blocks of `size_class` from a parked heap of the adopter's node, or null. The
// caller holds its own lock.
Span* adopt_span(Heap& adopter, unsigned size_class);

// Gives back what heaps without a thread, and owners that do not come to their inbox, hold without
// need: the heaps of `node`; no heap of another one is touched. `everything`: also heaps that were
// parked or drained just now. Returns true if there is more to come: something waits for its owner.
bool clean_heaps(bool everything, unsigned node = kEveryNode);

// The part of it that concerns parked heaps, of all nodes.
void clean_parked_heaps();

// Calls visit(heap, argument) for each parked heap, with its lock and the owner's rights held.
void visit_parked_heaps(void (*visit)(Heap& heap, void* argument), void* argument);

// The same for each shared heap.
void visit_shared_heaps(void (*visit)(Heap& heap, void* argument), void* argument);

struct HeapTotals {
  uint32_t heaps;
  uint32_t parked;
  uint64_t adoptions;
  uint64_t claims;
};
HeapTotals heap_totals();
uint32_t heap_count();

// What a heap is, for a message. Never waits: `unknown` if the registry's lock is held.
enum class HeapState : uint8_t { unknown, taken, parked, shared };
HeapState state_of_heap(uint32_t id);

// Around fork. In the child, where only `mine` has a thread, the other heaps are parked. Between
// the two the forking thread may make heaps, and use any.
void lock_heaps();
void unlock_heaps();
void unlock_heaps_in_child(const Heap* mine);

}  // namespace near

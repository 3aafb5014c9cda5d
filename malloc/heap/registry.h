// All heaps, by number, and the heaps that have no thread now.
//
// Heaps are type-stable: they are never freed, so a remote free may use one after its thread ended.
// A thread that ends parks its heap whole; the next thread of the node takes it whole. A heap of
// the same node that runs out of blocks also adopts single spans of parked heaps.
// Invariant: each heap is in one of four states: parked; owned by a thread; held by a thread that
// took it from the parked ones and holds its lock; or shared: any thread uses it under its lock.
// The shared heaps are the fallback heap of each node (for threads that gave their heap up, or
// could not get one), the node heap of each node (for blocks of a node that the caller names) and
// the bound heaps that the program makes.
// A heap comes into the list of parked ones, and leaves it, under its node's lock; the thread that
// takes it out alone has the owner's rights. An adopter, which holds its own heap's lock, takes one
// out only if it gets that heap's lock at once. tests/model/adoption_model.cc
// Thread-safety: any thread.
#pragma once

#include <cstdint>

#include "heap/heap.h"

namespace near {

inline constexpr unsigned kEveryNode = kMaxNodes;
inline constexpr uint32_t kMaxHeaps = 1 << 16;  // a heap's number has 16 bits in RemoteList

// This many numbers are reserved for the fallback heap and the node heap of each node: the fallback
// heap serves a thread that can get no other.
inline constexpr uint32_t kKeptHeaps = 2 * kMaxNodes;

// The limit on the number of heaps of every kind. Tests lower it.
extern NEAR_HIDDEN Atomic<uint32_t> most_heaps;

// Returns a heap for the calling thread on `node`: a parked one or a new one; null if memory is
// refused or the limit is reached.
Heap* take_heap(unsigned node);

// Parks a heap that its thread no longer uses.
void park_heap(Heap* heap);

// Returns the heap of `node` for threads without one. Use it under its lock. Null if memory is
// refused.
Heap* fallback_heap(unsigned node);

// Returns the heap of `node` for callers that name that node: all its spans lie there. Use it under
// its lock. Null if memory is refused.
Heap* node_heap(unsigned node);

// Returns another such heap, which the caller may share with any thread; park_heap ends it.
Heap* take_bound_heap(unsigned node);

// The heaps by number, filled in order and never changed, and how many were made. For this folder
// and inspect/layout.cc; others call heap_by_id and heap_count.
extern NEAR_HIDDEN Atomic<Heap*> all_heaps[kMaxHeaps];
extern NEAR_HIDDEN Atomic<uint32_t> heaps_made;

Heap* heap_by_id(uint32_t id);

// True if heap `id`, which must be below heap_count(), is of `node`. Does not touch the heap.
bool is_heap_of(uint32_t id, unsigned node);

// Takes a span with free blocks of `size_class` from a parked heap of the adopter's node, or
// returns null. The caller holds its own heap's lock.
Span* adopt_span(Heap& adopter, unsigned size_class, bool waits = false);

// What heaps still have after clean_heaps.
struct Uncleaned {
  bool waiting;  // an inbox waits for its owner
  bool keeping;  // a busy owner keeps runs, or spans of a heap may have free pages
};

// Gives back unused memory of the heaps of `node` that have no thread or an idle owner. It touches
// no heap of another node. `everything`: also heaps of busy owners and heaps cleaned before.
Uncleaned clean_heaps(bool everything, unsigned node = kEveryNode);

// As clean_heaps, for the parked heaps of all nodes alone.
void clean_parked_heaps();

// Calls visit(heap, argument) for each parked heap, with its lock and the owner's rights held.
void visit_parked_heaps(void (*visit)(Heap& heap, void* argument), void* argument);

// As visit_parked_heaps, for each shared heap.
void visit_shared_heaps(void (*visit)(Heap& heap, void* argument), void* argument);

struct HeapTotals {
  uint32_t heaps;
  uint32_t parked;
  uint64_t adoptions;
  uint64_t claims;
};
HeapTotals heap_totals();
uint32_t heap_count();

// The state of a heap, for a message. Never waits: `unknown` if the registry's lock is held.
enum class HeapState : uint8_t { unknown, taken, parked, shared };
HeapState state_of_heap(uint32_t id);

// Called around fork. In the child, where only `mine` has a thread, the other threads' heaps are
// parked.
// Between the two calls the forking thread may make heaps and use any heap.
void lock_heaps();
void unlock_heaps();
void unlock_heaps_in_child(const Heap* mine);

}  // namespace near

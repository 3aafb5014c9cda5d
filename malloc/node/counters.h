// Counters of each node: events of slow paths, and the frees that no heap counts.
//
// A free is counted once. The heap that owns the span counts it if its own thread frees and the
// span lies on the heap's node (FreeCounts::local, Heap::freed_spare). The freeing thread's heap
// counts it if the block is large or another owner's (Heap::freed_of). All others are counted here.
// Thread-safety: any thread; the counters are independent.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "node/events.h"
#include "platform/topology.h"

namespace near {

struct alignas(64) NodeCounters {
  Atomic<uint64_t> spills_out{0};    // requests for this node that another one served
  Atomic<uint64_t> spills_in{0};     // requests for other nodes that this one served
  Atomic<uint64_t> rehomes{0};       // threads that moved here
  Atomic<uint64_t> adoptions{0};     // spans taken over from its parked heaps
  Atomic<uint64_t> refused{0};       // strict requests that it could not serve
  Atomic<uint64_t> bind_refused{0};  // times that the kernel refused to bind memory to it
};

extern NEAR_HIDDEN NodeCounters node_counters[kMaxNodes];

inline void count_event(Atomic<uint64_t>& event) {
  event.fetch_add(1, kRelaxed);  // relaxed: a statistic
}

// A request for `node` was served by `other`.
inline void count_spill(unsigned node, unsigned other) {
  count_event(node_counters[node].spills_out);
  count_event(node_counters[other].spills_in);
  record_event(EventKind::spill, node, other, 0);
}

// The sum of one counter over all nodes.
uint64_t sum_of(Atomic<uint64_t> NodeCounters::* counter);
inline uint64_t spill_count() { return sum_of(&NodeCounters::spills_out); }
inline uint64_t bind_refused_count() { return sum_of(&NodeCounters::bind_refused); }

// A thread whose home is node `by` freed blocks of node `of` that no heap counts: the thread has no
// heap, or its heap owns the span but lies on another node.
NEAR_COLD void count_freed_apart(unsigned of, unsigned by, uint64_t blocks);
uint64_t freed_apart(unsigned of, unsigned by);

}  // namespace near

// What happens to the nodes' memory, counted by node: events of slow paths, and those frees that no
// heap counts.
//
// A free is counted once: by the heap that owns the span, if its own thread frees into a span of
// the heap's node (Heap::Returns::local); by the freeing thread's heap, if it frees into another
// owner's span or a large block (Heap::freed_of); else here.
// Thread-safety: any thread; the counters are independent.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "platform/topology.h"

namespace near {

struct alignas(64) NodeCounters {
  Atomic<uint64_t> spills_out{0};    // its threads had to be served by another node
  Atomic<uint64_t> spills_in{0};     // it served threads of another
  Atomic<uint64_t> rehomes{0};       // threads that moved here
  Atomic<uint64_t> adoptions{0};     // spans taken over from its parked heaps
  Atomic<uint64_t> refused{0};       // strict requests that it could not serve
  Atomic<uint64_t> bind_refused{0};  // the kernel did not bind memory to it
};

extern NEAR_HIDDEN NodeCounters node_counters[kMaxNodes];

inline void count_event(Atomic<uint64_t>& event) {
  event.fetch_add(1, kRelaxed);  // relaxed: a statistic
}

// A request for `node` was served by `other`.
inline void count_spill(unsigned node, unsigned other) {
  count_event(node_counters[node].spills_out);
  count_event(node_counters[other].spills_in);
}

// The sum of one counter over all nodes.
uint64_t sum_of(Atomic<uint64_t> NodeCounters::* counter);

// Blocks of node `of` were freed by a thread at home on node `by`. Where no heap counts them: by
// threads without one, and into spans that a heap has on another node than its own.
NEAR_COLD void count_freed_apart(unsigned of, unsigned by, uint64_t blocks);
uint64_t freed_apart(unsigned of, unsigned by);

}  // namespace near

// All memory of the allocator: the nodes, the first window with one region for each, and windows
// added later.
//
// Thread-safety: `start_memory` once; the rest from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "node/counters.h"
#include "node/node.h"
#include "platform/topology.h"
#include "span/address_map.h"

namespace near {

extern NEAR_HIDDEN Topology topology;
extern NEAR_HIDDEN Node nodes[kMaxNodes];

// Reads the topology and plans the first window. Nothing is mapped.
void start_memory();

// The descriptor of the slice that holds `address`, in any window; null if the allocator does not
// manage it.
Span* span_of(const void* address);

// The span that holds `address`, also if it is a later slice of a large block (which is not marked:
// this walks back to the head). The slice's own descriptor if nothing does, null as above.
const Span* enclosing_span(const void* address);

// A run of slices from `node`, or from another by distance (counted as a spill), or from a new
// window; null if refused. The first slice lies at a multiple of `alignment`.
Span* take_slices(unsigned node, uint32_t slices, bool& zero, size_t alignment = kSliceSize);

// The same from `node` alone, or from a new window of it.
Span* take_slices_at(unsigned node, uint32_t slices, bool& zero, size_t alignment = kSliceSize);

// The node a span belongs to.
inline Node& node_of(const Span& span) { return nodes[span.region->node()]; }

// Zeroed memory for the allocator's own structures, bound to `node`; never given back. Null if
// refused.
void* take_metadata(unsigned node, size_t bytes);

uint64_t spill_count();
uint64_t bind_refused_count();
size_t metadata_bytes();

// Around fork: every lock of this layer.
void lock_memory();
void unlock_memory();
void unlock_memory_in_child();

}  // namespace near

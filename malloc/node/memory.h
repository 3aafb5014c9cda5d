// All memory of the allocator: the nodes, the first window with one region for each node, and the
// windows added later.
//
// Thread-safety: `start_memory` is called once; any thread calls the rest.
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

// Reads the topology and plans the first window. It maps nothing.
void start_memory();

// The descriptor of the slice that holds `address`, in any window; null if no window holds it.
Span* span_of(const void* address);

// The span that holds `address`. Later slices of a large block are not marked, so this walks back
// to the block's first one. If no span holds it: the slice's own descriptor, or null as above.
const Span* enclosing_span(const void* address);
// Returns the span of a small or medium block, whichever of its slices the block begins in.
inline Span& span_with(const void* block) {
  Span* slice = span_of(block);
  return *(slice->kind == SpanKind::inside ? slice - slice->back : slice);
}

// Takes a run of slices for a user of the shard `home`: from its node, else from the nearest other
// node that has it (counted as a spill), else from a new window; null if refused. `zero`: all of it
// reads as zero. Takes the locks of regions and shards; the caller may hold a heap's lock.
Span* take_slices(Shard& home, const RunRequest& request, bool& zero);

// As take_slices, from the node of `home` alone or from a new window of it.
Span* take_slices_at(Shard& home, const RunRequest& request, bool& zero);

// The shard a span belongs to.
inline Shard& shard_of(const Span& span) { return span.region->shard(); }

// Adds a shard to the node. Null if it may not have more, or if memory is refused.
Shard* add_shard(Node& node);

// Calls visit(window, data) for every window.
void visit_windows(void (*visit)(const Window&, void*), void* data);

// Called around fork: they take and release every lock of this layer.
void lock_memory();
void unlock_memory();
void unlock_memory_in_child();

}  // namespace near

// Where the structures are, for tools that read a process from outside (nearmalloc_tools/top).
//
// kVersion changes when an entry that a tool reads gets another meaning, or goes.
#include <cstddef>

#include "heap/registry.h"
#include "nearmalloc/nearmalloc.h"
#include "node/memory.h"

namespace near {

// A friend of the classes whose members it names.
struct Layout {
  static constexpr uint64_t kVersion = 1;

// The classes have base parts and private members, for which the standard leaves offsetof to the
// compiler; GCC and Clang support it for all classes without virtual bases.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
  static constexpr struct near_layout kTable = {{
      {"version", kVersion, nullptr},
      {"topology", 0, &topology},
      {"topology.count", offsetof(Topology, count), nullptr},
      {"topology.kernel_id", offsetof(Topology, kernel_id), nullptr},
      {"classes", kClasses, kSizeClasses.data()},
      {"classes.small", kSmallClasses, nullptr},
      {"class.bytes", sizeof(SizeClass), nullptr},
      {"class.size", offsetof(SizeClass, size), nullptr},
      {"link_key", 0, &link_key},
      {"counters", sizeof(NodeCounters), node_counters},
      {"counters.spills_out", offsetof(NodeCounters, spills_out), nullptr},
      {"counters.spills_in", offsetof(NodeCounters, spills_in), nullptr},
      {"counters.rehomes", offsetof(NodeCounters, rehomes), nullptr},
      {"counters.bind_refused", offsetof(NodeCounters, bind_refused), nullptr},
      {"nodes", sizeof(Node), nodes},
      {"node.first", offsetof(Node, first_), nullptr},
      {"node.added", offsetof(Node, added_), nullptr},
      {"node.more", offsetof(Node, more_), nullptr},
      {"shard.regions", offsetof(Shard, regions_), nullptr},
      {"shard.purged_bytes", offsetof(Shard, purged_bytes_), nullptr},
      {"shard.purge_calls", offsetof(Shard, purge_calls_), nullptr},
      {"region.next", offsetof(Region, next), nullptr},
      {"region.base", offsetof(Region, base_), nullptr},
      {"region.spans", offsetof(Region, spans_), nullptr},
      {"region.chunks", offsetof(Region, chunks_), nullptr},
      {"region.end", offsetof(Region, end_), nullptr},
      {"region.owned", offsetof(Region, owned_), nullptr},
      {"chunk.bytes", sizeof(Chunk), nullptr},
      {"chunk.slices", kChunkSlices, nullptr},
      {"chunk.free", offsetof(Chunk, free), nullptr},
      {"chunk.dirty", offsetof(Chunk, dirty), nullptr},
      {"chunk.away", offsetof(Chunk, away), nullptr},
      // a half word, whose highest two bits are the presence
      {"chunk.presence", offsetof(Chunk, above) + sizeof(Run), nullptr},
      {"chunk.mapped", static_cast<uint64_t>(Presence::mapped), nullptr},
      {"slice.bytes", kSliceSize, nullptr},
      {"span.bytes", sizeof(Span), nullptr},
      {"span.list", offsetof(Span, list), nullptr},
      {"span.local", offsetof(Span, local), nullptr},
      {"span.frees", offsetof(Span, frees), nullptr},
      {"span.kind", offsetof(Span, kind), nullptr},
      {"span.class", offsetof(Span, size_class), nullptr},
      {"span.uncarved", offsetof(Span, uncarved), nullptr},
      {"span.remote", offsetof(Span, remote), nullptr},
      {"span.slices", offsetof(Span, slices), nullptr},
      {"span.start", offsetof(Span, start), nullptr},
      {"span.asked", offsetof(Span, asked), nullptr},
      {"span.sampled", offsetof(Span, sampled), nullptr},
      {"sampled.blocks", static_cast<uint64_t>(Sampled::blocks), nullptr},
      {"span.owner", offsetof(Span, owner), nullptr},
      {"span.node", offsetof(Span, node), nullptr},
      {"span.blocks", static_cast<uint64_t>(SpanKind::blocks), nullptr},
      {"span.large", static_cast<uint64_t>(SpanKind::large), nullptr},
      {"events", kEvents, event_ring.words},
      {"events.next", 0, &event_ring.next},
      {"events.begun", sizeof event_ring.begun[0], event_ring.begun},
      {"heaps", 0, all_heaps},
      {"heaps.made", 0, &heaps_made},
      {"heap.node", offsetof(Heap, node_), nullptr},
      {"heap.visits", offsetof(Heap, visits_), nullptr},
      {"heap.counts", offsetof(Heap, returns) + offsetof(FreeCounts, counts), nullptr},
      {"heap.remote", offsetof(Heap, returns) + offsetof(FreeCounts, remote), nullptr},
      {"heap.freed_of", offsetof(Heap, freed_of), nullptr},
      {"heap.shared", offsetof(Heap, shared), nullptr},
      {"heap.parked", offsetof(Heap, registration) + offsetof(Heap::Registration, parked), nullptr},
      {"heap.thread", offsetof(Heap, registration) + offsetof(Heap::Registration, thread), nullptr},
  }};
#pragma GCC diagnostic pop
};

}  // namespace near

extern "C" {
constinit const struct near_layout near_layout = near::Layout::kTable;
}

#include "inspect/node_statistics.h"

#include "front/thread.h"
#include "heap/registry.h"
#include "node/memory.h"

namespace near {
namespace {

// Calls visit(heap) for every heap, without its lock.
template <typename Visit>
void for_each_heap(Visit visit) {
  for (uint32_t id = 0; id < heap_count(); id++) visit(*heap_by_id(id));
}

}  // namespace

void gather_node_statistics(unsigned node, near_node_stats& stats) {
  stats = near_node_stats{};
  const Shard::Totals totals = nodes[node].totals();
  stats.node = topology.kernel_id[node];
  stats.reserved = totals.reserved;
  stats.committed = totals.committed;
  stats.in_spans = totals.in_spans;
  stats.dirty = totals.dirty;
  stats.purged = totals.purged;
  uint64_t cached[kMaxNodes] = {};
  for_each_heap([&](Heap& heap) {
    stats.heaps += heap.node() == node ? 1 : 0;
    const LockGuard guard(heap.lock);
    heap.add_cached(cached);
  });
  stats.cached = cached[node] + depots[node].bytes();
  const NodeCounters& counters = node_counters[node];
  stats.rehomes = counters.rehomes.load(kRelaxed);            // relaxed: statistics
  stats.adoptions = counters.adoptions.load(kRelaxed);        // relaxed: as above
  stats.spills_out = counters.spills_out.load(kRelaxed);      // relaxed: as above
  stats.spills_in = counters.spills_in.load(kRelaxed);        // relaxed: as above
  stats.refused = counters.refused.load(kRelaxed);            // relaxed: as above
  stats.bind_refused = counters.bind_refused.load(kRelaxed);  // relaxed: as above
}

FreedBy gather_freed(unsigned node) {
  if (has_heap()) {
    const LockGuard guard(current_heap->lock);
    current_heap->count_hot();
  }
  FreedBy by{};
  for (unsigned n = 0; n < topology.count; n++) by.node[n] = freed_apart(node, n);
  for_each_heap([&](const Heap& heap) {
    uint64_t& sum = by.node[heap.node()];
    sum += heap.freed_of[node].load(kRelaxed);  // relaxed: a statistic
    if (heap.node() != node) return;
    sum += heap.returns.local.load(kRelaxed);  // relaxed: a statistic
    sum += heap.freed_spare.load(kRelaxed);    // relaxed: a statistic
  });
  return by;
}

void write_node_statistics(Out out) {
  for (unsigned n = 0; n < topology.count; n++) {
    near_node_stats s;
    gather_node_statistics(n, s);
    out.put(
        "nearmalloc %s: node %u: %lu KiB in spans (%lu KiB of it cached), %lu KiB dirty, %lu KiB "
        "committed, %u heaps, %lu rehomes, %lu adoptions, %lu spills out, %lu in, %lu strict "
        "requests refused, %lu refused binds\n",
        near_version(), s.node, s.in_spans / kKiB, s.cached / kKiB, s.dirty / kKiB,
        s.committed / kKiB, s.heaps, s.rehomes, s.adoptions, s.spills_out, s.spills_in, s.refused,
        s.bind_refused);
    const FreedBy by = gather_freed(n);
    out.put("nearmalloc %s: blocks of node %u freed by threads of", near_version(), s.node);
    for (unsigned other = 0; other < topology.count; other++) {
      out.put("%s %u: %lu", other == 0 ? "" : ",", topology.kernel_id[other], by.node[other]);
    }
    out.put("\n");
  }
  if (!topology.real) return;
  const near_placement p = sample_placement(kStatisticsSample);
  out.put(
      "nearmalloc %s: of %lu sampled pages %lu are on their node, %lu are not; %lu were not "
      "touched, %lu the kernel does not tell of\n",
      near_version(), pages_of(p), p.right, p.wrong, p.absent, p.refused);
}

}  // namespace near

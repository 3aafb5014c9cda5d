#include "inspect/statistics.h"

#include <cstdlib>

#include "front/front.h"
#include "front/large.h"
#include "front/thread.h"
#include "heap/registry.h"
#include "inspect/node_statistics.h"
#include "node/memory.h"
#include "platform/message.h"
#include "platform/options.h"

namespace near {
namespace {

void add_counts(const Heap& heap, near_stats& stats) {
  stats.refills += heap.visits();
  stats.span_events += heap.returns.counts.load(kRelaxed);        // relaxed: statistics
  stats.remote_blocks += heap.returns.remote.load(kRelaxed);      // relaxed: as above
  stats.free_batches += heap.batches.calls.load(kRelaxed);        // relaxed: as above
  stats.free_batch_blocks += heap.batches.blocks.load(kRelaxed);  // relaxed: as above
  stats.free_batch_groups += heap.batches.groups.load(kRelaxed);  // relaxed: as above
  stats.free_batch_remote += heap.batches.remote.load(kRelaxed);  // relaxed: as above
}

}  // namespace

void gather_statistics(near_stats& stats) {
  stats = near_stats{};
  if (is_inside()) return;
  for (unsigned n = 0; n < topology.count; n++) {
    const Shard::Totals totals = nodes[n].totals();
    stats.reserved += totals.reserved;
    stats.committed += totals.committed;
    stats.in_spans += totals.in_spans;
    stats.dirty += totals.dirty;
    stats.purged += totals.purged;
    stats.purge_calls += totals.purge_calls;
    stats.commit_calls += totals.commit_calls;
  }
  const HeapTotals heaps = heap_totals();
  stats.large = large_bytes();
  stats.large_blocks = large_blocks();
  stats.heaps = heaps.heaps;
  stats.heaps_parked = heaps.parked;
  stats.adoptions = heaps.adoptions;
  stats.remote_claims = heaps.claims;
  for (const Heap* heap : {&empty_heap, &exited_heap}) add_counts(*heap, stats);
  for (uint32_t id = 0; id < heap_count(); id++) add_counts(*heap_by_id(id), stats);
  stats.rehomes = rehome_count();
  stats.spills = spill_count();
  stats.bind_refused = bind_refused_count();
  stats.nodes = topology.count;
}

void write_statistics_text(Out out) {
  near_stats s;
  gather_statistics(s);
  out.put(
      "nearmalloc %s: %lu KiB in spans (%lu KiB of it large blocks), %lu KiB dirty, %lu KiB "
      "committed, %lu MiB reserved\n",
      near_version(), s.in_spans / kKiB, s.large / kKiB, s.dirty / kKiB, s.committed / kKiB,
      s.reserved / kMiB);
  out.put(
      "nearmalloc %s: %lu KiB given back in %lu calls, %lu commit calls, %lu heaps (%lu parked), "
      "%lu adoptions, %lu claims\n",
      near_version(), s.purged / kKiB, s.purge_calls, s.commit_calls, s.heaps, s.heaps_parked,
      s.adoptions, s.remote_claims);
  out.put("nearmalloc %s: %u nodes, %lu rehomes, %lu spills, %lu refused binds\n", near_version(),
          s.nodes, s.rehomes, s.spills, s.bind_refused);
  if (s.nodes > 1) write_node_statistics(out);
  if (s.free_batches == 0) return;
  out.put("nearmalloc %s: %lu blocks freed in %lu batches, in %lu groups\n", near_version(),
          s.free_batch_blocks, s.free_batches, s.free_batch_groups);
}

// The option `stats`.
__attribute__((constructor)) static void print_at_exit(int, char**, char** environment) {
  read_options(environment);
  if (option(Option::stats) == 0) return;
  keep_stderr();
  atexit([] {
    switch (static_cast<AtExit>(option(Option::stats))) {
      case AtExit::nothing:
        return;
      case AtExit::text:
        return write_statistics_text(Out());
      case AtExit::json:
        return write_statistics_json(Out());
      case AtExit::openmetrics:
        return write_openmetrics(nullptr);
    }
  });
}

void write_statistics_xml(FILE* stream) {
  near_stats s;
  gather_statistics(s);
  fprintf(
      stream,
      "<malloc version=\"1\">\n"
      "<heap nr=\"0\">\n<sizes>\n</sizes>\n"
      "<total type=\"fast\" count=\"0\" size=\"0\"/>\n<total type=\"rest\" count=\"0\" "
      "size=\"%lu\"/>\n"
      "<system type=\"current\" size=\"%lu\"/>\n<system type=\"max\" size=\"%lu\"/>\n"
      "<aspace type=\"total\" size=\"%lu\"/>\n<aspace type=\"mprotect\" size=\"%lu\"/>\n</heap>\n"
      "<total type=\"mmap\" count=\"0\" size=\"%lu\"/>\n"
      "<system type=\"current\" size=\"%lu\"/>\n<system type=\"max\" size=\"%lu\"/>\n"
      "<aspace type=\"total\" size=\"%lu\"/>\n<aspace type=\"mprotect\" "
      "size=\"%lu\"/>\n</malloc>\n",
      s.committed - s.in_spans, s.committed, s.committed, s.reserved, s.committed, s.large,
      s.committed, s.committed, s.reserved, s.committed);
}

}  // namespace near

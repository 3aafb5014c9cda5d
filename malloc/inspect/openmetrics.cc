// Writes the statistics in the text format of OpenMetrics 1.0, which Prometheus and others read.
//
// The rules: a family has one TYPE, UNIT and HELP line and its samples follow at once; the name of
// a family with a unit ends in it; the samples of a counter end in _total; the text ends in # EOF.
#include "inspect/node_statistics.h"
#include "inspect/out.h"
#include "inspect/statistics.h"
#include "node/events.h"
#include "node/memory.h"

namespace near {
namespace {

enum class Kind : bool { gauge, counter };

template <typename Stats>
struct Metric {
  const char* name;  // without "nearmalloc_" and "_total"
  const char* unit;  // null: things are counted
  Kind kind;
  uint64_t Stats::* value;
  const char* help;
};

constexpr Metric<near_node_stats> kMetricsOfNode[] = {
    {"reserved_bytes", "bytes", Kind::gauge, &near_node_stats::reserved,
     "Address space that the node uses."},
    {"committed_bytes", "bytes", Kind::gauge, &near_node_stats::committed,
     "Address space of the node that is mapped."},
    {"span_bytes", "bytes", Kind::gauge, &near_node_stats::in_spans,
     "Memory in spans, which serve blocks or are cached."},
    {"cached_bytes", "bytes", Kind::gauge, &near_node_stats::cached,
     "Memory of empty spans that heaps keep, and of freed blocks that wait in magazines."},
    {"dirty_bytes", "bytes", Kind::gauge, &near_node_stats::dirty,
     "Free memory that was not given back yet."},
    {"purged_bytes", "bytes", Kind::counter, &near_node_stats::purged,
     "Memory given back to the system."},
    {"rehomes", nullptr, Kind::counter, &near_node_stats::rehomes,
     "Threads that moved to the node."},
    {"adoptions", nullptr, Kind::counter, &near_node_stats::adoptions,
     "Spans taken over from heaps whose threads have ended."},
    {"spills_out", nullptr, Kind::counter, &near_node_stats::spills_out,
     "Requests for the node that another node served."},
    {"spills_in", nullptr, Kind::counter, &near_node_stats::spills_in,
     "Requests for other nodes that the node served."},
    {"refused", nullptr, Kind::counter, &near_node_stats::refused,
     "Strict requests that the node could not serve."},
    {"bind_refused", nullptr, Kind::counter, &near_node_stats::bind_refused,
     "Calls of mbind for the node that the kernel refused."},
};

constexpr Metric<near_stats> kMetricsOfProcess[] = {
    {"large_bytes", "bytes", Kind::gauge, &near_stats::large, "Memory in large blocks."},
    {"large_blocks", nullptr, Kind::gauge, &near_stats::large_blocks, "Large blocks."},
    {"parked_heaps", nullptr, Kind::gauge, &near_stats::heaps_parked, "Heaps without a thread."},
    {"purge_calls", nullptr, Kind::counter, &near_stats::purge_calls,
     "System calls that gave memory back."},
    {"commit_calls", nullptr, Kind::counter, &near_stats::commit_calls,
     "System calls that made memory usable."},
    {"remote_claims", nullptr, Kind::counter, &near_stats::remote_claims,
     "Spans freed for an owner that does not run."},
    {"free_batches", nullptr, Kind::counter, &near_stats::free_batches,
     "Calls of near_free_batch."},
    {"free_batch_blocks", nullptr, Kind::counter, &near_stats::free_batch_blocks,
     "Blocks freed by near_free_batch."},
    {"free_batch_groups", nullptr, Kind::counter, &near_stats::free_batch_groups,
     "Groups that near_free_batch made of them."},
    {"free_batch_remote_groups", nullptr, Kind::counter, &near_stats::free_batch_remote,
     "Groups that near_free_batch handed to other threads."},
    {"refills", nullptr, Kind::counter, &near_stats::refills,
     "Times that malloc found no free block and took the lock of its heap."},
    {"span_events", nullptr, Kind::counter, &near_stats::span_events,
     "Times that free took the lock of its heap."},
    {"remote_blocks", nullptr, Kind::counter, &near_stats::remote_blocks,
     "Blocks of other threads' frees that their owners took back."},
};

void put_family(Out& out, const char* name, const char* unit, Kind kind, const char* help) {
  out.put("# TYPE nearmalloc_%s %s\n", name, kind == Kind::counter ? "counter" : "gauge");
  if (unit != nullptr) out.put("# UNIT nearmalloc_%s %s\n", name, unit);
  out.put("# HELP nearmalloc_%s %s\n", name, help);
}

template <typename Stats>
void put_family(Out& out, const Metric<Stats>& metric) {
  put_family(out, metric.name, metric.unit, metric.kind, metric.help);
}

const char* ending(Kind kind) { return kind == Kind::counter ? "_total" : ""; }

unsigned kernel_node(unsigned node) { return topology.kernel_id[node]; }

void put_totals(Out& out) {
  near_stats totals;
  gather_statistics(totals);
  for (const Metric<near_stats>& metric : kMetricsOfProcess) {
    put_family(out, metric);
    out.put("nearmalloc_%s%s %lu\n", metric.name, ending(metric.kind),
            static_cast<unsigned long>(totals.*metric.value));
  }
}

// The nodes are gathered anew for each family, because the samples of a family stand together and
// there is no room for the statistics of all nodes on a small stack.
void put_nodes(Out& out) {
  for (const Metric<near_node_stats>& metric : kMetricsOfNode) {
    put_family(out, metric);
    for (unsigned n = 0; n < topology.count; n++) {
      near_node_stats stats;
      gather_node_statistics(n, stats);
      out.put("nearmalloc_%s%s{node=\"%u\"} %lu\n", metric.name, ending(metric.kind),
              kernel_node(n), static_cast<unsigned long>(stats.*metric.value));
    }
  }
  put_family(out, "heaps", nullptr, Kind::gauge, "Heaps at home on the node.");
  for (unsigned n = 0; n < topology.count; n++) {
    near_node_stats stats;
    gather_node_statistics(n, stats);
    out.put("nearmalloc_heaps{node=\"%u\"} %u\n", kernel_node(n), stats.heaps);
  }
}

void put_freed(Out& out) {
  put_family(out, "freed_blocks", nullptr, Kind::counter,
             "Blocks of the node that were freed, by the node of the thread that freed them.");
  for (unsigned n = 0; n < topology.count; n++) {
    const FreedBy by = gather_freed(n);
    for (unsigned other = 0; other < topology.count; other++) {
      out.put("nearmalloc_freed_blocks_total{node=\"%u\",by_node=\"%u\"} %lu\n", kernel_node(n),
              kernel_node(other), static_cast<unsigned long>(by.node[other]));
    }
  }
}

constexpr struct {
  EventKind kind;
  const char* name;
} kKinds[] = {{EventKind::spill, "spill"},
              {EventKind::growth, "growth"},
              {EventKind::purge, "purge"},
              {EventKind::bind_refused, "bind_refused"},
              {EventKind::error, "error"}};
static_assert(sizeof kKinds / sizeof kKinds[0] == kEventKinds);

void put_events(Out& out) {
  put_family(out, "recorded_events", nullptr, Kind::counter,
             "Rare events; those of one kind and the same nodes within a second are one.");
  for (const auto& each : kKinds) {
    for (unsigned n = 0; n < topology.count; n++) {
      out.put("nearmalloc_recorded_events_total{kind=\"%s\",node=\"%u\"} %lu\n", each.name,
              kernel_node(n), static_cast<unsigned long>(event_count(each.kind, n)));
    }
  }
}

}  // namespace

void write_openmetrics(FILE* stream) {
  Out out(stream);
  out.put("# TYPE nearmalloc_build info\n# HELP nearmalloc_build The library that is loaded.\n");
  out.put("nearmalloc_build_info{version=\"%s\"} 1\n", near_version());
  put_totals(out);
  put_nodes(out);
  put_freed(out);
  put_events(out);
  out.put("# EOF\n");
}

}  // namespace near

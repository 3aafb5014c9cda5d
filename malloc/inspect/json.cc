// Writes all statistics as one JSON object.
#include "inspect/node_statistics.h"
#include "inspect/out.h"
#include "inspect/statistics.h"
#include "node/memory.h"

namespace near {
namespace {

template <typename Stats>
struct Field {
  const char* name;
  uint64_t Stats::* value;
};

constexpr Field<near_stats> kTotals[] = {
    {"reserved", &near_stats::reserved},
    {"committed", &near_stats::committed},
    {"in_spans", &near_stats::in_spans},
    {"large", &near_stats::large},
    {"large_blocks", &near_stats::large_blocks},
    {"dirty", &near_stats::dirty},
    {"purged", &near_stats::purged},
    {"purge_calls", &near_stats::purge_calls},
    {"commit_calls", &near_stats::commit_calls},
    {"heaps", &near_stats::heaps},
    {"heaps_parked", &near_stats::heaps_parked},
    {"adoptions", &near_stats::adoptions},
    {"rehomes", &near_stats::rehomes},
    {"spills", &near_stats::spills},
    {"bind_refused", &near_stats::bind_refused},
    {"remote_claims", &near_stats::remote_claims},
    {"free_batches", &near_stats::free_batches},
    {"free_batch_blocks", &near_stats::free_batch_blocks},
    {"free_batch_groups", &near_stats::free_batch_groups},
    {"free_batch_remote", &near_stats::free_batch_remote},
    {"refills", &near_stats::refills},
    {"span_events", &near_stats::span_events},
    {"remote_blocks", &near_stats::remote_blocks},
};

constexpr Field<near_node_stats> kOfNode[] = {
    {"reserved", &near_node_stats::reserved},     {"committed", &near_node_stats::committed},
    {"in_spans", &near_node_stats::in_spans},     {"cached", &near_node_stats::cached},
    {"dirty", &near_node_stats::dirty},           {"purged", &near_node_stats::purged},
    {"rehomes", &near_node_stats::rehomes},       {"adoptions", &near_node_stats::adoptions},
    {"spills_out", &near_node_stats::spills_out}, {"spills_in", &near_node_stats::spills_in},
    {"refused", &near_node_stats::refused},       {"bind_refused", &near_node_stats::bind_refused},
};

constexpr Field<near_placement> kOfPlacement[] = {
    {"right", &near_placement::right},
    {"wrong", &near_placement::wrong},
    {"absent", &near_placement::absent},
    {"refused", &near_placement::refused},
};

template <typename Stats, size_t kCount>
void put_fields(Out& out, const Stats& stats, const Field<Stats> (&fields)[kCount]) {
  for (const Field<Stats>& field : fields) {
    out.put(", \"%s\": %lu", field.name, static_cast<unsigned long>(stats.*field.value));
  }
}

}  // namespace

void write_statistics_json(Out out) {
  near_stats totals;
  gather_statistics(totals);
  out.put("{\"version\": \"%s\",\n \"totals\": {\"nodes\": %u", near_version(), totals.nodes);
  put_fields(out, totals, kTotals);
  out.put("},\n \"nodes\": [");
  for (unsigned n = 0; n < topology.count; n++) {
    near_node_stats node;
    gather_node_statistics(n, node);
    out.put("%s\n  {\"node\": %u, \"heaps\": %u", n == 0 ? "" : ",", node.node, node.heaps);
    put_fields(out, node, kOfNode);
    out.put("}");
  }
  out.put("],\n \"freed\": [");
  for (unsigned n = 0; n < topology.count; n++) {
    const FreedBy by = gather_freed(n);
    out.put("%s\n  [", n == 0 ? "" : ",");
    for (unsigned other = 0; other < topology.count; other++) {
      out.put("%s%lu", other == 0 ? "" : ", ", static_cast<unsigned long>(by.node[other]));
    }
    out.put("]");
  }
  out.put("],\n \"placement\": ");
  if (topology.real) {
    const near_placement found = sample_placement(kStatisticsSample);
    out.put("{\"pages\": %lu", static_cast<unsigned long>(pages_of(found)));
    put_fields(out, found, kOfPlacement);
    out.put("}}\n");
  } else {
    out.put("null}\n");
  }
}

}  // namespace near

// Statistics of each node and of frees between nodes, and what the kernel reports about the
// placement of pages.
// Thread-safety: any thread, without locks held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "inspect/out.h"
#include "nearmalloc/nearmalloc.h"
#include "platform/topology.h"

namespace near {

void gather_node_statistics(unsigned node, near_node_stats& stats);

// The blocks of a node that were freed, by the node of the thread that freed them.
struct FreedBy {
  uint64_t node[kMaxNodes];
};
FreedBy gather_freed(unsigned node);

// Writes the counters and the FreedBy of each node, and a sample of where the kernel placed pages.
void write_node_statistics(Out out);

// Writes all statistics as one JSON object.
void write_statistics_json(Out out);

// Writes all statistics in the text format of OpenMetrics; a null `stream` means stderr, without
// allocating.
void write_openmetrics(FILE* stream);

// Has the contract of near_sample_placement.
near_placement sample_placement(size_t pages);
inline constexpr size_t kStatisticsSample = 1024;  // pages; used when all statistics are printed
inline uint64_t pages_of(const near_placement& sample) {
  return sample.right + sample.wrong + sample.absent + sample.refused;
}

}  // namespace near

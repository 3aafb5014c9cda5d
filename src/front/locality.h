// What the allocator knows of each node and of the frees between them, and what the kernel says
// about the placement of pages.
// Thread-safety: any thread, without locks held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "nearmalloc/nearmalloc.h"
#include "platform/topology.h"

namespace near {

void gather_node_statistics(unsigned node, near_node_stats& stats);

// Blocks of a node that were freed, by the node of the thread that freed them.
struct FreedBy {
  uint64_t node[kMaxNodes];
};
FreedBy gather_freed(unsigned node);

// A line for each node and one for its row of the matrix, and a sample of the kernel's truth, on
// stderr, without allocating.
void print_node_statistics();

// All statistics as one JSON object; null: on stderr, without allocating.
void write_statistics_json(FILE* stream);

// The contract is near_sample_placement's.
near_placement sample_placement(size_t pages);
inline constexpr size_t kStatisticsSample = 1024;  // pages, when all statistics are printed
inline uint64_t pages_of(const near_placement& sample) {
  return sample.right + sample.wrong + sample.absent + sample.refused;
}

}  // namespace near

// What the allocator knows about itself, gathered from counters that the slow paths keep; and the
// check of all structures.
// Thread-safety: any thread, without locks held.
#pragma once

#include <cstddef>
#include <cstdio>

#include "nearmalloc/nearmalloc.h"

namespace near {

void gather_statistics(near_stats& stats);

// Prints one fact a line, on stderr, without allocating.
void print_statistics();

// Writes glibc's malloc_info format, as far as it applies.
void write_statistics_xml(FILE* stream);

// Checks the nodes, the caller's own heap and the parked ones. Returns the number of violations,
// and names each on stderr.
size_t check_everything();

}  // namespace near

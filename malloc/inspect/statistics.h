// Statistics of the whole allocator, gathered from counters that the slow paths keep; and the check
// of all structures.
// Thread-safety: any thread, without locks held.
#pragma once

#include <cstddef>
#include <cstdio>

#include "inspect/out.h"
#include "nearmalloc/nearmalloc.h"

namespace near {

void gather_statistics(near_stats& stats);

// Writes the totals in sentences; with several nodes also those of each node.
void write_statistics_text(Out out);

// Writes glibc's malloc_info format, as far as it applies.
void write_statistics_xml(FILE* stream);

// Checks the nodes, the caller's own heap, the parked heaps and the shared ones. Returns the number
// of violations, and names each on stderr.
size_t check_everything();

}  // namespace near

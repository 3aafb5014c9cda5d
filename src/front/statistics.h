// What the allocator knows of itself, gathered from counters that the slow paths keep; and the
// check of all structures.
// Thread-safety: any thread, without locks held.
#pragma once

#include <cstddef>
#include <cstdio>

#include "nearmalloc/nearmalloc.h"

namespace near {

void gather_statistics(near_stats& stats);

// One line a fact, on stderr, without allocating.
void print_statistics();

// Arranges that they are printed when the process exits, as the option `stats` says.
void print_statistics_at_exit();

// glibc's malloc_info format, as far as it applies.
void write_statistics_xml(FILE* stream);

// Checks the nodes, the caller's own heap and the parked ones. Returns the number of violations,
// each named on stderr.
size_t check_everything();

// Gives back what can be given back, but for `pad` bytes. True if anything was.
bool trim(size_t pad);

}  // namespace near

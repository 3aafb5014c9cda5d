// Why the resident memory of the process is what it is, in parts.
//
// Every resident page of the process belongs to one mapping. A page of the allocator's windows is
// attributed by the structures (a page of a span by each of its blocks), a page of its other
// memory by the range that it lies in, and all other pages by their mapping. No part is the rest of
// the kernel's total, so the sum can differ from that, and both are reported. But where the kernel
// has merged memory of ours with other anonymous memory, the part of that gets the mapping's rest.
// Thread-safety: any thread, without locks held. Other threads may run: what they change meanwhile
// may be counted either way.
#pragma once

#include <cstdint>
#include <cstdio>

#include "sizes/size_class.h"

namespace near {

enum class Part : uint8_t {
  small_blocks,  // live blocks of size classes
  large_blocks,
  free_blocks,  // in the lists of spans
  unused,       // pages of spans that hold no block yet, or none since they were given back
  span_ends,    // behind the last block of a span
  large_ends,   // behind the bytes that a large block was asked for
  magazines,    // freed blocks that wait in magazines and depots
  cached,       // empty spans that heaps keep
  dirty,        // free slices
  clean,        // free slices that are not dirty: those in a huge page with others can be resident
  structures,   // heaps, magazines, depots, shards, and the profiler's tables
  descriptors,
  tables,
  library,  // the mappings of the file that contains this code, and its variables
  files,
  stack,
  brk,
  shared,
  others,  // anonymous memory of others: stacks of threads, JIT code, arenas
  count,
};
inline constexpr unsigned kParts = static_cast<unsigned>(Part::count);

struct Explanation {
  uint64_t parts[kParts];  // resident bytes
  // Resident bytes of spans by class; `live` includes blocks that wait in magazines.
  struct OfClass {
    uint64_t live;
    uint64_t free;
    uint64_t unused;
  };
  OfClass classes[kClasses];
  // The most, over chunks with dirty slices, since a slice of the chunk last became dirty.
  uint64_t longest_wait_ms;
  uint64_t kernel;       // /proc/self/smaps_rollup; 0 if that cannot be read
  uint64_t page_tables;  // the kernel's memory for them, which no process's RSS contains

  uint64_t& of(Part part) { return parts[static_cast<unsigned>(part)]; }
  uint64_t of(Part part) const { return parts[static_cast<unsigned>(part)]; }
  uint64_t sum() const {
    uint64_t all = 0;
    for (const uint64_t part : parts) all += part;
    return all;
  }
};

class PageMap;

// Adds the parts that lie in chunks: of spans, and of free slices.
void measure_chunks(PageMap& pages, Explanation& out);

// False if /proc cannot be read, or the caller interrupted the allocator.
bool measure_everything(Explanation& out);

// Writes an explanation; if `stream` is null, to stderr without allocating. Returns what
// measure_everything returned.
bool write_explanation(FILE* stream);

}  // namespace near

// What a run waited for: cache lines, locks, calls of the kernel; and the blocks that lie there.
#pragma once

#include "engine/fiber.h"

namespace near::manycore {

inline constexpr unsigned kCallers = 3;

// Code that touched a contended line, at one place in it.
struct Part {
  const void* site[kCallers];  // the access, and the calls that led to it
  uint16_t offset, bytes;
  Access kind;
  uint64_t count;
  Time waited;
  Processors processors;
};

struct ContendedLine {
  static constexpr unsigned kParts = 12;
  uint64_t key;  // the line number + 1
  uint64_t near, far;     // transfers
  Time waited;            // the cost of these transfers, queueing included
  Time waited_allocator;  // of this, what the allocator's code waited
  unsigned part_count;
  Part* parts;
};

struct LockProfile {
  uint64_t key;  // its address
  const char* kind;
  uint64_t taken, contended;
  Time waited;
  Time waited_allocator;  // of this, what the allocator's code waited
  const void* site;       // of the newest wait
};

struct CallProfile {
  const char* name;
  uint64_t count;
  Time cost, waited;
};

struct Block {
  uint64_t key;  // the number of the 16-byte granule in which it begins, + 1
  size_t bytes;
  const void* site[kCallers];
};

struct Region {
  char name[64];
  Counts counts;
  uint64_t entered;
};

// The part of the run that the workload measures, if it says so: then lines, locks, calls and
// counts are of this part alone.
struct Measured {
  bool begun, ended;
  Time time;  // of its begin, then how long it took
  Counts counts;
  size_t present_begin, present_end;  // bytes of present pages
};
extern Measured measured;

void start_profile();
// Of the part that is measured, or of the whole run.
Counts counts_of_run();
// An access that another core made dear.
void count_transfer(uintptr_t address, size_t bytes, Access kind, const Outcome& outcome,
                    const void* site);

// --- for the result ---
extern Table<ContendedLine> lines;
extern Table<LockProfile> locks;
extern CallProfile calls[];
extern unsigned call_count;
extern Region regions[];
extern unsigned region_count;
extern uint64_t digest;
// Calls visit(block) for the blocks that overlap [begin, begin + bytes), by their newest allocation.
template <typename Visit>
void each_block(uintptr_t begin, size_t bytes, Visit visit);
extern Table<Block> blocks;
inline constexpr size_t kGranule = 16;
inline constexpr size_t kLookBack = size_t{4} << 20;  // the largest block that is found

template <typename Visit>
void each_block(uintptr_t begin, size_t bytes, Visit visit) {
  const uintptr_t first = begin / kGranule;
  for (uintptr_t granule = (begin + bytes - 1) / kGranule; granule + kLookBack / kGranule > first;
       --granule) {
    const Block* const block = blocks.find(granule + 1);
    if (block == nullptr) continue;
    if (granule * kGranule + block->bytes > begin) visit(*block);
    if (granule < first) return;  // what began before this block ended before it
  }
}

}  // namespace near::manycore

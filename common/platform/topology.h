// The machine's NUMA nodes as the allocator sees them: numbered 0..count-1 without holes.
//
// From the kernel (allowed nodes, sysfs), or from the option `topology`, so that every rule runs on
// one node.
// Invariant: every CPU maps to a node with memory; order[n][0] == n, then by distance.
// Thread-safety: written once at start, read by any thread.
#pragma once

#include <cstdint>

namespace near {

inline constexpr unsigned kMaxNodes = 64;
inline constexpr unsigned kMaxCpus = 4096;

struct Topology {
  unsigned count = 1;                        // nodes that have memory
  unsigned unused = 0;                       // more such nodes, which count as none
  bool real = true;                          // false: given by text, memory is not bound
  uint16_t kernel_id[kMaxNodes] = {};        // the kernel's number of a node
  uint8_t node_of_cpu[kMaxCpus] = {};        // CPUs out of range belong to node 0
  uint8_t order[kMaxNodes][kMaxNodes] = {};  // of node n: all nodes, nearest first

  unsigned node_of(unsigned cpu) const { return cpu < kMaxCpus ? node_of_cpu[cpu] : 0; }
};

// Fills `topology` from the running kernel. If that does not say which nodes there are, or whose
// CPUs are whose, there is one node, and memory is not bound.
void read_topology(Topology& topology);

// Fills `topology` from "nodes=2;cpus=0-1,2-3+8;distance=10,20,20,10" (cpus: one entry a node, '+'
// joins ranges, empty for a node without CPUs; distance: row by row; a blank may stand for ';').
// Returns null, or what is wrong with the text, and then `topology` is unchanged.
const char* parse_topology(const char* text, Topology& topology);

}  // namespace near

// The machine's NUMA nodes as the allocator sees them: numbered 0..count-1 without holes.
//
// The topology comes from the kernel (allowed nodes, sysfs), or from NEARMALLOC_TOPOLOGY, so that
// every rule can be tested on a machine with one node.
// Distances are the kernel's: 10 is the node itself, 20 is twice as far, 255 is out of reach. Where
// neither the kernel nor the text says one, it is 20.
// Invariant: every CPU maps to a node with memory; order[n][0] == n, then by distance.
// Thread-safety: written once at start; any thread reads it.
#pragma once

#include <cstdint>

namespace near {

inline constexpr unsigned kMaxNodes = 64;
inline constexpr unsigned kMaxCpus = 4096;
inline constexpr unsigned kLocalDistance = 10;
inline constexpr unsigned kRemoteDistance = 20;  // where nothing says another one

// Aligned, because every slow path reads it: nothing that threads write shares its cache lines.
struct alignas(128) Topology {
  unsigned count = 1;                        // nodes that have memory
  unsigned unused = 0;                       // nodes with memory that are not counted in `count`
  bool real = true;                          // false: from text; memory is not bound
  bool has_policy = false;                   // the process was started with one that chooses nodes
  uint16_t kernel_id[kMaxNodes] = {};        // the kernel's number of a node
  uint16_t cpus[kMaxNodes] = {1};            // CPUs of a node that the process may use, at least 1
  uint8_t node_of_cpu[kMaxCpus] = {};        // CPUs out of range belong to node 0
  uint8_t order[kMaxNodes][kMaxNodes] = {};  // order[n]: all nodes, the nearest to n first
  // [n][other]: what was said of their distance; 0: nothing. read_topology writes the entries of
  // nodes that are there alone, and none if there is one node: the others' pages stay untouched.
  uint8_t said_distance[kMaxNodes][kMaxNodes] = {};

  unsigned node_of(unsigned cpu) const { return cpu < kMaxCpus ? node_of_cpu[cpu] : 0; }

  // How far a CPU of node `from` is from the memory of node `to`.
  unsigned distance(unsigned from, unsigned to) const {
    if (from == to) return kLocalDistance;
    const unsigned said = said_distance[from][to];
    return said != 0 ? said : kRemoteDistance;
  }
};

// True of a memory policy, as get_mempolicy tells it, that chooses nodes: the process or its parent
// has set it (numactl --interleave, --preferred, --membind). Other policies take memory where the
// thread runs. `names_nodes`: its set of nodes is not empty.
bool chooses_nodes(int mode, bool names_nodes);

// Fills `topology` from the running kernel. If the kernel does not report the nodes, or which node
// a CPU belongs to, the topology has one node, and memory is not bound.
void read_topology(Topology& topology);

// Fills `topology` from "nodes=2;cpus=0-1,2-3+8;distance=10,20,20,10". cpus: one entry per node,
// '+' joins ranges, empty for a node without CPUs; distance: row by row, 0: not said; a blank may
// replace ';'.
// Returns null, or a text that says what is wrong; then `topology` is unchanged.
const char* parse_topology(const char* text, Topology& topology);

}  // namespace near

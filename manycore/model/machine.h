// The simulated machine: its processors, caches, nodes, and what each operation costs.
//
// A machine is described by a TOML file (manycore/machines); the driver writes it as lines of
// `name value...`, which machine.cc reads without allocating.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/time.h"

namespace near::manycore {

inline constexpr unsigned kMostProcessors = 512;
inline constexpr unsigned kMostCores = 512;
inline constexpr unsigned kMostSockets = 16;  // groups of cores that share an L3
inline constexpr unsigned kMostNodes = 16;
inline constexpr size_t kLineBytes = 64;

struct Cache {
  size_t bytes;
  unsigned ways;
  Time hit;  // the cost of an access that this cache answers
};

// The processors that share a core share its L1 and L2; the cores of a socket share its L3.
struct Machine {
  char name[64];
  unsigned processors;
  unsigned cores;
  unsigned sockets;
  unsigned nodes;
  uint16_t core_of[kMostProcessors];
  uint16_t socket_of[kMostProcessors];
  uint16_t node_of[kMostProcessors];
  uint16_t distance[kMostNodes][kMostNodes];  // as in ACPI's SLIT: 10 is local

  Cache l1, l2, l3;  // l3.bytes is for each socket

  // --- memory and transfers ---
  Time memory_local;
  Time memory_remote;    // at distance 20; other distances are interpolated
  Time transfer_core;    // a modified line from another core of the same socket
  Time transfer_socket;  // a modified line from another socket at distance 20
  Time invalidate;       // an upgrade of a shared line, beyond the transfer
  Time atomic;           // a read-modify-write, beyond the access

  // --- computation ---
  Time basic_block;  // of instrumented code
  // The time of a basic block and of a hit in the L1 while another processor of the core runs, in
  // percent of the time alone.
  unsigned shared_core_percent;

  // --- the kernel ---
  Time system_call;     // every call into the kernel
  Time fault_small;     // a page fault of 4 KiB without zeroing
  Time fault_huge;      // a page fault of 2 MiB without zeroing
  Time zero_kibibyte;   // zeroing 1 KiB of a new page
  Time unmap_page;      // of munmap and madvise, for each 4 KiB that was present
  Time interrupt_send;  // of a TLB shootdown or a membarrier: for each interrupted processor
  Time interrupt_take;  // what it costs the interrupted processor
  Time futex_wait, futex_wake;
  Time context_switch;
  Time idle_wake;  // until an idle processor runs a thread that was woken, beyond the switch
  bool huge_pages_always;  // transparent huge pages: always, or only where madvise asks for them
  Time quantum;            // after which another runnable thread gets the processor
};

// Reads the lines `name value...` of `text`. Returns nullptr, or the error message (a static buffer).
// Unknown names, missing names and numbers out of range are errors.
const char* parse_machine(const char* text, Machine& machine);

}  // namespace near::manycore

// The memory system: private L1 and L2 of each core, an L3 of each socket, a directory that keeps
// each line coherent, and the queue of processors that want a busy line.
//
// Invariant: a line is modified in at most one core, and then no other core has it. All state
// changes happen in the order of the calls, so that equal calls give equal costs.
#pragma once

#include "model/machine.h"

namespace near::manycore {

enum class Access : uint8_t { kRead, kWrite, kUpdate };  // kUpdate: an atomic read-modify-write

enum class Source : uint8_t {
  kL1,
  kL2,
  kL3,
  kMemoryLocal,
  kMemoryRemote,
  kTransferNear,  // from another core of this socket
  kTransferFar,   // from another socket
};

struct Outcome {
  Time cost;    // of the whole access, `waited` included
  Time waited;  // for a line that another processor is transferring
  Source source;
  bool coherence;  // the line was in this core's caches until another core wrote it, or this
                   // access invalidates copies of other cores
};

class Memory {
 public:
  // The machine should outlive the memory. `reserve` gives zeroed memory of the host that is never
  // returned.
  Memory(const Machine& machine, void* (*reserve)(size_t bytes));

  // One access to one line. `address` is any address in the line, `node` is where its page lies.
  Outcome access(unsigned processor, uintptr_t address, Access kind, unsigned node, Time now);

  // Whether the next read (or write) of this line by this processor is a hit in its L1: it changes
  // nothing that another processor can see. The fast path of the engine.
  bool hits(unsigned processor, uintptr_t address, Access kind) const;

  // The pages of [begin, begin + bytes) are gone: no cache holds their lines.
  void forget(uintptr_t begin, size_t bytes);

  // After this much virtual time the state is consistent, or the process ends. For tests.
  void check() const;
};

}  // namespace near::manycore

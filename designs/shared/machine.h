// The machine as designs see it: its nodes and its processors. NEARMALLOC_TOPOLOGY replaces the
// real ones.
// Thread-safety: written once at start, read by any thread.
#pragma once

#include "platform/topology.h"

namespace near::design {

void read_machine();

const Topology& topology();

// Processors that are online in the system, even if another topology is given; at least 1.
unsigned processors();

// The node of the processor that the calling thread runs on. May be stale when it is returned.
unsigned current_node();

}  // namespace near::design

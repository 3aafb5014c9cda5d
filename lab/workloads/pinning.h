// Where the threads of a workload run: the option --pin.
//
// Invariant: off until use(); then thread i of a run is bound to one CPU, the same in every run on
// one machine, of those that the process may use. Who may touch it: use() the main thread before
// others start; pin() each thread for itself.
#pragma once

#include <cstddef>
#include <string>

namespace workload::pinning {

// `spread`: one thread after the other on the next node; `compact`: a node's CPUs before the next
// node's; `none`: nowhere. More threads than CPUs begin again.
void use(const std::string& policy);

// This thread is thread `index` of the run. Ends the program with status 1 if the kernel refuses.
void pin(size_t index);

}  // namespace workload::pinning

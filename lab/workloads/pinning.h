// Where the threads of a workload run: the options --pin and --migrate.
//
// Invariant: off until use() or migrate(); then thread i of a run is bound to one CPU, the same in
// every run on one machine, of those that the process may use. With migrate() it begins there and
// moves on, as the kernel might move it: to the next of these CPUs that its own mask names, which
// the allocator may have set when the thread started. Thread-safety: use() and migrate() the
// main thread before others start; the rest each thread for itself.
#pragma once

#include <cstddef>
#include <string>

namespace workload::pinning {

// `spread`: one thread after the other on the next node; `compact`: a node's CPUs before the next
// node's; `none`: nowhere. More threads than CPUs begin again.
void use(const std::string& policy);

// Threads are not pinned: each moves whenever it has done so many operations.
void migrate(size_t operations);

// This thread is thread `index` of the run. Ends the program with status 1 if the kernel refuses.
void pin(size_t index);

// With migrate(): this thread moves now.
void move_on();

// This thread has done so many operations in all. It may move.
void may_move(size_t operations);

// How often threads changed their CPU until now.
size_t moves();

}  // namespace workload::pinning

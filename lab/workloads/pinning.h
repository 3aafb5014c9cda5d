// The options --pin and --migrate: on which CPUs the threads of a workload run.
//
// Invariant: without use() and migrate() threads are not bound. After either, thread i of a run is
// bound to one of the process's CPUs, the same in every run on one machine. With migrate() it
// begins there and moves on, as the kernel might move it: to the next of these CPUs that is in its
// own mask, which the allocator may have set when the thread started. Thread-safety: use() and
// migrate(): the main thread before others start; the rest: each thread for itself.
#pragma once

#include <cstddef>
#include <string>

namespace workload::pinning {

// `spread`: each thread goes to the next node; `compact`: a node's CPUs are used before the next
// node's; `none`: threads are not bound. If there are more threads than CPUs, CPUs are reused.
void use(const std::string& policy);

// Instead of pinning: each thread moves after every `operations` operations.
void migrate(size_t operations);

// Binds the calling thread as thread `index` of the run. Ends the program with status 1 if the
// kernel refuses.
void pin(size_t index);

// With migrate(), moves the calling thread now.
void move_on();

// Moves the calling thread if it is due, given how many operations it has done in all.
void may_move(size_t operations);

// How often threads have changed their CPU.
size_t moves();

}  // namespace workload::pinning

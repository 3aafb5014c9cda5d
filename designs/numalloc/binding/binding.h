// Threads bound to nodes. [Yang23 §3.2]
//
// A thread is bound to the processors of a node, not to one of them. The policy chooses the node
// when the thread is created: `interleave` the one with the fewest bound threads, the next one
// first; `saturate` one node until it has as many threads as processors; `file` as the rules say
// (rules.h). The first thread, where it runs, is bound when it creates the second: before, the
// process is as any other.
// Nothing is bound on one node, nor in a process whose own mask excludes processors, nor a thread
// whose attributes name some, or whose creator has set a mask of its own: they keep what they were
// given, also after fork.
// On a given topology (NEARMALLOC_TOPOLOGY) a thread belongs to its node even where the node has no
// processor that exists; it may then run anywhere.
// Used by libnumalloc.so and, for any allocator, by libnearbind.so.
// Thread-safety: `start` once; the rest any thread.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "base/compiler.h"

namespace near::binding {

enum class Policy : uint8_t { interleave, saturate, file, off };

inline constexpr int kNobody = -1;
inline constexpr int kAnywhere = -2;  // with all processors of the process, whoever creates it

NEAR_HIDDEN extern __thread int own_node NEAR_TLS_INITIAL_EXEC;

// The node that the calling thread is bound to, or kNobody.
inline int bound_node() { return own_node; }

// Reads the process's mask and `path` (for Policy::file). Allocates nothing.
void start(Policy policy, const char* path);

// In the child the process has one thread again, which is unbound as the first thread was.
void lock_for_fork();
void unlock_after_fork(bool child);

// A node for a thread that is about to be created with these attributes, or kAnywhere; kNobody:
// leave it alone.
int choose_node(const pthread_attr_t* attributes);
// It was not created after all, or has ended.
void forget_thread(int node);
// The calling thread is of this node (or kAnywhere) from now on, until it ends.
void bind_self(int node);

struct Counts {
  uint64_t bound = 0;
  uint64_t left_alone = 0;
  uint64_t refused = 0;
};
Counts counts();
uint64_t threads_on(unsigned node);  // bound and alive

}  // namespace near::binding

// Binds threads to nodes. [Yang23 §3.2]
//
// A thread is bound to the processors of a node, not to one of them. The policy chooses the node
// when the thread is created: `interleave` the next node among those with the fewest bound threads;
// `saturate` one node until it has as many threads as processors; `file` the node that the rules
// name (rules.h). The first thread is bound to the node where it runs, when it creates the second
// thread; until then the process is unchanged.
// Threads are not bound on one node, in a process whose own mask excludes processors, if their
// attributes name processors, or if their creator has set a mask of its own: such threads keep
// their mask, also after fork.
// On a given topology (NEARMALLOC_TOPOLOGY) a thread belongs to its node even if the node has no
// existing processor; it may then run anywhere.
// Used by libnumalloc.so and, for any allocator, by libnearbind.so.
// Thread-safety: `start` once; the rest any thread.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "base/compiler.h"

namespace near::design::numalloc::binding {

enum class Policy : uint8_t { interleave, saturate, file, off };

inline constexpr int kNobody = -1;
inline constexpr int kAnywhere =
    -2;  // on all processors of the process, even if its creator is bound

NEAR_HIDDEN extern __thread int own_node NEAR_TLS_INITIAL_EXEC;

// The node that the calling thread is bound to, or kNobody.
inline int bound_node() { return own_node; }

// Reads the process's mask and `path` (for Policy::file). Allocates nothing.
void start(Policy policy, const char* path);

// Called around fork. The child's only thread is unbound, as the first thread was.
void lock_for_fork();
void unlock_after_fork(bool child);

// A node for a thread that is about to be created with these attributes, or kAnywhere; kNobody if
// it must not be bound.
int choose_node(const pthread_attr_t* attributes);
// Called if the thread was not created after all, or has ended.
void forget_thread(int node);
// Binds the calling thread to this node (or kAnywhere) until it ends.
void bind_self(int node);

struct Counts {
  uint64_t bound = 0;
  uint64_t left_alone = 0;
  uint64_t refused = 0;
};
Counts counts();
uint64_t threads_on(unsigned node);  // bound and alive

}  // namespace near::design::numalloc::binding

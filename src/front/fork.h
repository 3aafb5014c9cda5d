// What becomes of the allocator when the process forks.
//
// The forking thread takes all locks, so that the child finds every heap between two slow paths;
// glibc's lock of its list of streams first, which threads hold while they allocate. While it has
// them, handlers of other libraries allocate in it as usual. If fork comes from a signal handler
// that interrupted this thread inside (sync/inside.h), nothing is taken: the parent goes on as if
// nothing were, and the child is left alone until the interrupted call ends, which repairs it.
// docs/decisions/0014-helper-thread-and-fork.md
// Thread-safety: any thread.
#pragma once

namespace near {

// Registers the handlers, once. Before other libraries do the same, so that their handlers run
// while ours hold no lock: at the first allocation, or by the constructor, which the shared library
// asks the loader to run first (-z initfirst). Registering may allocate: `current_heap` is set.
void handle_forks();

}  // namespace near

// What the allocator does when the process forks.
//
// The forking thread takes all locks, so that the child finds every heap between two slow paths. It
// takes glibc's lock of the list of streams first, which threads hold while they allocate. While it
// has them, handlers of other libraries allocate in it as usual. If a signal handler that
// interrupted this thread inside (sync/inside.h) forks, no lock is taken: the parent goes on as
// usual, and the child is left alone until the interrupted call ends, which repairs it.
// docs/decisions/0014-helper-thread-and-fork.md
// Thread-safety: any thread.
#pragma once

namespace near {

// Registers the handlers once, before other libraries register theirs, so that theirs run while
// ours hold no lock: at the first allocation, or in the constructor, which the shared library asks
// the loader to run first (-z initfirst). Registering may allocate: `current_heap` is set.
void handle_forks();

}  // namespace near

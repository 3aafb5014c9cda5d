// What the allocator does when the process forks.
//
// The forking thread takes all locks, so that the child finds every heap between two slow paths. It
// first takes glibc's lock of the list of streams, because threads may allocate while they hold it.
// While it holds all locks, fork handlers of other libraries can allocate in this thread as usual.
// If a signal handler forks that interrupted its thread inside (sync/inside.h), no lock is taken:
// the parent goes on as usual; the child is left alone until the interrupted call ends, and is then
// repaired.
// docs/decisions/0014-helper-thread-and-fork.md
// Thread-safety: any thread.
#pragma once

namespace near {

// Registers the fork handlers once, before other libraries register theirs, so that those run while
// ours hold no lock. Called at the first allocation, or in the constructor, which the shared
// library asks the loader to run first (-z initfirst). Registering may allocate, so `current_heap`
// is set before.
void handle_forks();

}  // namespace near

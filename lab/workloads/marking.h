// Marks the measured region for the counting plugin, and tells it what is no heap.
//
// Off until enable(): nothing here does anything before. Excluded are the images of program and
// libraries, the mappings of files, the main thread's stack and thread-local storage, those of each
// thread that says so and of the threads that the allocator started for itself, and tables.
// Invariant: a page of an excluded stack is never heap later: stacks are small then, so that the C
// library keeps each for the next thread.
// Thread-safety: enable() the main thread before others start; exclude_thread() each thread for
// itself; exclude() and include() whoever holds the memory; begin() and end() one thread at a time.
#pragma once

#include <cstddef>

namespace workload::marking {

// Ends the program with status 2 where there are no markers. Starts a thread that allocates and
// stays, because allocators start threads of their own when a second one comes.
void enable();

// The stack of this thread, which has none of a size of its own, and its thread-local storage are
// no heap. The main thread's are known.
void exclude_thread();

// These pages, mapped by the workload for itself, are no heap; may be heap again: about to unmap.
void exclude(const void* pages, size_t bytes);
void include(const void* pages, size_t bytes);

void begin();
void end();

}  // namespace workload::marking

// Marks the measured region for the counting plugin, and tells it which memory is not heap.
//
// Before enable(), no function here has an effect. Excluded are: the images of program and
// libraries; mappings of files; the stack and thread-local storage of the main thread, of each
// thread that calls exclude_thread(), and of the allocator's own threads; tables.
// Invariant: a page of an excluded stack is never heap later: enable() makes stacks small, so that
// the C library keeps each for the next thread.
// Thread-safety: enable(): the main thread before others start; exclude_thread(): each thread for
// itself; exclude() and include(): the memory's owner; begin() and end(): one thread at a time.
#pragma once

#include <cstddef>

namespace workload::marking {

// Ends the program with status 2 on a processor without markers. Starts a thread that allocates and
// never ends, because some allocators start threads of their own for the second thread.
void enable();

// Excludes the calling thread's stack, which must have the default size, and its thread-local
// storage. The main thread need not call it.
void exclude_thread();

// exclude(): these pages, which the workload mapped for itself, are not heap. include(): they may
// be heap again, because the workload is about to unmap them.
void exclude(const void* pages, size_t bytes);
void include(const void* pages, size_t bytes);

void begin();
void end();

}  // namespace workload::marking

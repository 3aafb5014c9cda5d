// All heaps: heap 0, the global one, and those of threads, several of which may share one.
// Thread-safety: any thread; `make_heaps` once, at start.
#pragma once

#include <span>

#include "designs/hoard/heap.h"

namespace near::design::hoard {

// Makes the global heap and `count` others. False if memory is refused.
bool make_heaps(unsigned count);

// Heap 0 and the others; empty before the start.
std::span<Heap> all_heaps();
Heap& global_heap();

// The heap of the calling thread, which it keeps: threads take the heaps in turn. Null if the
// design cannot start. [Berger00 §3: a hash of the thread]
Heap* heap_of_thread();

// Frees a block of the heap that owns its superblock.
Freed put_block(void* block);

// Gives the memory of wholly free superblocks back to the system. True if there was any.
bool trim_heaps();
// Of all heaps.
Heap::Totals totals_of_heaps();

}  // namespace near::design::hoard

// The calling thread's heap: how it gets one, changes it on another node, and gives it up.
//
// `current_heap` is all the thread-local storage there is on the fast path. It points to
// `empty_heap` before the first allocation and to `exited_heap` after the last round of
// thread-local destructors: both have empty bins and own no span, so that both fast paths fall
// through to their slow paths without a test of their own.
// Thread-safety: the calling thread.
#pragma once

#include "heap/heap.h"
#include "heap/purge_thread.h"
#include "node/counters.h"

namespace near {

extern NEAR_HIDDEN Heap empty_heap;
extern NEAR_HIDDEN Heap exited_heap;
extern NEAR_HIDDEN __thread Heap* current_heap NEAR_TLS_INITIAL_EXEC;

// What the slow paths know about the calling thread, except what sync/inside.h holds. It is one
// variable, so that a simulator can put one thread aside and act as another.
struct ThreadRecord {
  uint8_t exit_rounds;  // rounds of thread-specific destructors so far
  uint8_t unsettled;    // slow paths until its heap may change again
  bool moved;           // it left a heap on another node
  uint8_t unlooked;     // slow paths since it last cleaned parked heaps; wraps
  bool counted;         // as one that may need the helper (heap/purge_thread.h)
  uint8_t forks;        // calls of fork in progress; a signal handler may add one
  uint16_t returned;    // spans it gave a first block back to since it looked after parked heaps
};
extern NEAR_HIDDEN __thread ThreadRecord thread_record NEAR_TLS_INITIAL_EXEC;

inline bool has_heap() { return current_heap != &empty_heap && current_heap != &exited_heap; }

// Held while the library starts; fork takes it first.
extern NEAR_HIDDEN Mutex start_lock;

// Makes the library ready: options, topology, memory, fork and thread hooks. May be called any
// number of times, from any thread.
void start_library();

// Gives the calling thread a heap if it may have one. False if it may not (it ends, or memory is
// refused).
bool enter_thread();

// The destructor of the thread's key. It runs until the thread has given its heap up and is no
// longer counted: then `current_heap` is `exited_heap`.
void on_thread_exit(void* value);

// Declares that every thread comes through the three functions below; `create` makes the helper.
void announce_threads(CreateThread* create);

// The creator, which is counted too, calls the first before it creates a thread, the second on
// failure.
void count_new_thread();
void discount_new_thread();

// The new thread calls this, so that its end will be counted.
void mark_counted_thread();

// If the thread runs on another node than its heap's, gives it a heap there, but at a limited rate.
// Called on each slow path of an allocation. In a process without a purge thread, a thread that
// moved also gives back what is free in parked heaps, once in 256 times: one of them is the heap
// that it left and may still free into.
void rehome_if_moved();

// Called when the thread freed into a span of another heap, in a process without a purge thread:
// now and then it gives back what is free in parked heaps, whose threads are gone.
NEAR_COLD void look_after_parked();

// Returns the node of the CPU that the calling thread runs on.
unsigned current_node();

uint64_t rehome_count();

// Counts blocks of `node` that the thread freed, not into a span of its own.
inline void count_freed(unsigned node, uint64_t blocks) {
  if (unlikely(!has_heap())) return count_freed_apart(node, current_node(), blocks);
  Atomic<uint64_t>& sum = current_heap->freed_of[node];
  sum.store(sum.load(kRelaxed) + blocks, kRelaxed);  // relaxed: a statistic with one writer
}

}  // namespace near

// The calling thread's heap: how it gets one, moves with it to another node, and gives it up.
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

// What the slow paths know of the calling thread: the rest, except that of sync/inside.h. One
// variable, so that a simulator can put a thread aside and play another one.
struct ThreadRecord {
  uint8_t exit_rounds;  // rounds of thread-specific destructors so far
  uint8_t unsettled;    // slow paths until its heap may change again
  bool moved;           // it left a heap on another node
  uint8_t unlooked;     // slow paths since it looked after such heaps; wraps
  bool counted;         // as one that may need the helper (heap/purge_thread.h)
  uint8_t forks;        // calls of fork it is in: more than one in a signal handler
  uint16_t returned;    // spans it gave a first block back to since it looked after parked heaps
};
extern NEAR_HIDDEN __thread ThreadRecord thread_record NEAR_TLS_INITIAL_EXEC;

inline bool has_heap() { return current_heap != &empty_heap && current_heap != &exited_heap; }

// Held while the library starts; fork takes it first.
extern NEAR_HIDDEN Mutex start_lock;

// Makes the library ready: options, topology, memory, fork and thread hooks. Any number of times,
// from any thread.
void start_library();

// Gives the calling thread a heap if it may have one. False if it may not (it ends, or memory is
// refused).
bool enter_thread();

// The destructor of the thread's key, which runs until the thread has given its heap up and is
// counted no more: then `current_heap` is `exited_heap`.
void on_thread_exit(void* value);

// Every thread comes through the three functions below, and the helper is created by `create`.
void announce_threads(CreateThread* create);

// Before a thread is created, by its creator, which is counted, too; and if that failed.
void count_new_thread();
void discount_new_thread();

// The new thread: its end will be counted.
void mark_counted_thread();

// If the thread runs on another node than its heap's, gives it a heap there, but not again and
// again. Called on each slow path of an allocation. A thread that moved, in a process without a
// purge thread, also gives back what is free in parked heaps, once in 256 times: one of these is
// that which it left, and frees into.
void rehome_if_moved();

// The thread freed into a span of another heap, in a process without a purge thread: now and then
// it gives back what is free in parked heaps, whose threads are gone.
NEAR_COLD void look_after_parked();

// The node of the CPU that the calling thread runs on.
unsigned current_node();

uint64_t rehome_count();

// The thread freed blocks of `node`, not into a span of its own.
inline void count_freed(unsigned node, uint64_t blocks) {
  if (unlikely(!has_heap())) return count_freed_apart(node, current_node(), blocks);
  Atomic<uint64_t>& sum = current_heap->freed_of[node];
  sum.store(sum.load(kRelaxed) + blocks, kRelaxed);  // relaxed: a statistic with one writer
}

}  // namespace near

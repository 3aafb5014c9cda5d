// The calling thread's heap: how the thread gets it, changes it on another node, and gives it up.
//
// `current_heap` is the only thread-local variable on the fast path. It points to `empty_heap`
// before the first allocation, and to `exited_heap` after the ending thread gave its heap up
// (on_thread_exit). Both have empty bins and own no span, so the usual tests of the fast paths send
// such a thread to the slow paths.
// Thread-safety: the calling thread.
#pragma once

#include "heap/heap.h"
#include "heap/purge_thread.h"
#include "node/counters.h"
#include "node/memory.h"

namespace near {

extern NEAR_HIDDEN Heap empty_heap;
extern NEAR_HIDDEN Heap exited_heap;
extern NEAR_HIDDEN __thread Heap* current_heap NEAR_TLS_INITIAL_EXEC;

// The state of the calling thread for the slow paths, except that in sync/inside.h. It is one
// variable, so that a simulator can save and restore it to act as several threads.
struct ThreadRecord {
  uint8_t exit_rounds;  // rounds of thread-specific destructors so far
  uint8_t unsettled;    // slow paths until its heap may change again
  bool moved;           // it left a heap on another node
  uint8_t unlooked;     // slow paths since it last cleaned parked heaps; wraps
  bool counted;         // counted as a thread that may need the helper (heap/purge_thread.h)
  uint8_t forks;        // calls of fork in progress; a signal handler may add one
  uint16_t returned;    // remote lists that it was first to push to since look_after_parked cleaned
};
extern NEAR_HIDDEN __thread ThreadRecord thread_record NEAR_TLS_INITIAL_EXEC;

inline bool has_heap() { return current_heap != &empty_heap && current_heap != &exited_heap; }

// Held while the library starts; fork takes it first.
extern NEAR_HIDDEN Mutex start_lock;

// Makes the library ready: options, topology, memory, and the key whose destructor runs when a
// thread ends. May be called any number of times, from any thread.
void start_library();

// Gives the calling thread a heap. False if the thread is ending, or if memory is refused.
bool enter_thread();

// True if the thread has a heap, or got one now: a thread that only frees needs one, too.
inline bool can_have_heap() { return likely(has_heap()) || enter_thread(); }

// The destructor of the thread-specific key. It asks to run again for several rounds of
// destructors. In the last round that it asked for, the thread gives its heap up and is no longer
// counted: then `current_heap` is `exited_heap`.
void on_thread_exit(void* value);

// Declares that the three functions below are called for every thread; `create` makes the helper.
void announce_threads(CreateThread* create);

// The creating thread calls the first before it creates a thread, and the second if that failed.
// The first counts the creating thread too.
void count_new_thread();
void discount_new_thread();

// The new thread calls this, so that its end will be counted.
void mark_counted_thread();

// If the thread runs on another node than its heap's, gives it a heap there, at a limited rate.
// Called on each slow path of an allocation. In a process without a purge thread, a thread that
// moved also cleans the parked heaps once in 256 calls: one of them is the heap that it left and
// may still free into.
void rehome_if_moved();

// Called when the thread freed into a span of another heap, in a process without a purge thread.
// Cleans the parked heaps once in many calls.
NEAR_COLD void look_after_parked();

// Returns the node of the CPU that the calling thread runs on.
unsigned current_node();

// True if that is the node of the thread's heap.
inline bool is_at_home() {
  return likely(topology.count == 1) || current_node() == current_heap->node();
}

// Returns the shard on that node from which the calling thread takes large blocks. Gives the thread
// a heap, if it can have one.
Shard& current_shard();

uint64_t rehome_count();

// Counts blocks of `node` that the thread freed elsewhere than into its own spans.
inline void count_freed(unsigned node, uint64_t blocks) {
  if (unlikely(!has_heap())) return count_freed_apart(node, current_node(), blocks);
  current_heap->count_freed_elsewhere(node, blocks);
}

}  // namespace near

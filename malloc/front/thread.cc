#include "front/thread.h"

#include <pthread.h>
#include <unistd.h>

#include "front/fork.h"
#include "front/pin.h"
#include "front/populate.h"
#include "heap/purge_thread.h"
#include "heap/registry.h"
#include "node/memory.h"
#include "node/purge_signal.h"
#include "platform/cpu.h"
#include "platform/options.h"
#include "platform/probe.h"
#include "platform/saved_errno.h"
#include "profile/profiler.h"
#include "sync/tsan.h"

namespace near {

constinit Heap empty_heap;
constinit Heap exited_heap;
__thread Heap* current_heap NEAR_TLS_INITIAL_EXEC = &empty_heap;
__thread ThreadRecord thread_record NEAR_TLS_INITIAL_EXEC;

constinit Mutex start_lock{Rank::start};

namespace {

// The round of destructors in which a thread gives its heap up. It is not the last round, because
// the first allocation of a thread may be in a destructor. Under TSan it is one earlier: TSan ends
// its record of a thread in the last round, and our code must not run after that.
constexpr uint8_t kExitRounds = PTHREAD_DESTRUCTOR_ITERATIONS - 1 - (NEAR_TSAN ? 1 : 0);
constexpr uint8_t kSettle =
    8;  // the least number of slow paths between two changes of a thread's heap

// Every slow path may read it, so nothing that is written later shares its cache lines.
struct alignas(128) Start {
  Atomic<bool> done{false};
  pthread_key_t exit_key = 0;
  bool have_exit_key = false;
  bool threads_are_announced = false;
};
constinit Start start;

// Arranges that on_thread_exit runs when the calling thread ends. False if the system refuses.
bool watch_exit() {
  return start.have_exit_key && pthread_setspecific(start.exit_key, &exited_heap) == 0;
}

// The calling thread's heap from now on; null if there is none for it.
Heap* take_own_heap(unsigned node) {
  Heap* heap = take_heap(node);
  if (heap == nullptr) return nullptr;
  NEAR_PROBE("heap_taken", heap->id(), topology.kernel_id[node], 0U);
  current_heap = heap;
  return heap;
}

// The calling thread has given the heap up.
void park_own_heap(Heap* heap) {
  NEAR_PROBE("heap_parked", heap->id(), topology.kernel_id[heap->node()], 0U);
  park_heap(heap);
}

// Counts the calling thread, unless it has given its heap up or its end would not be noticed.
void count_this_thread(bool may_start) {
  if (thread_record.counted || current_heap == &exited_heap || !watch_exit()) return;
  thread_record.counted = true;
  count_thread(may_start);
}

}  // namespace

// Thread-specific destructors run in rounds, in no known order; those of other libraries may still
// allocate. So the key is set again until round kExitRounds.
void on_thread_exit(void* value) {
  if (++thread_record.exit_rounds < kExitRounds) {
    pthread_setspecific(start.exit_key, value);
    return;
  }
  {
    const Inside inside;  // the heap is neither parked nor owned
    Heap* mine = current_heap;
    current_heap = &exited_heap;
    if (mine != &empty_heap && mine != &exited_heap) park_own_heap(mine);
  }
  if (!thread_record.counted) return;
  thread_record.counted = false;
  discount_thread();
}

namespace {

// Key 0 stays the program's: a program may use a forgotten key of value 0.
bool create_exit_key() {
  if (pthread_key_create(&start.exit_key, on_thread_exit) != 0) return false;
  if (start.exit_key != 0) return true;
  const bool created = pthread_key_create(&start.exit_key, on_thread_exit) == 0;
  pthread_key_delete(0);
  return created;
}

}  // namespace

NEAR_COLD void start_library() {
  if (start.done.load(kAcquire)) return;  // pairs: started
  const SavedErrno saved;
  const LockGuard guard(start_lock);
  if (start.done.load(kRelaxed)) return;  // relaxed: changed under the lock only
  read_options(environ);
  start_memory();
  start.have_exit_key = create_exit_key();
  start.done.store(true, kRelease);  // pairs: started
}

// Does the steps that need a constructor. It reads the environment from its arguments, because the
// C library's own constructor may run later.
__attribute__((constructor)) static void finish_start(int, char**, char** environment) {
  read_options(environment);
  start_library();
  handle_forks();
  pin_own_object();
  count_this_thread(false);
  if (option(Option::populate_mib) != 0) obey_populate_option();
}

unsigned current_node() { return topology.count == 1 ? 0 : topology.node_of(current_cpu()); }

// Not always the heap's shard: a thread that moved may have to keep its old heap for a while.
Shard& current_shard() {
  if (likely(has_heap()) || enter_thread()) rehome_if_moved();
  const unsigned node = current_node();
  if (!has_heap()) return nodes[node].shard_for(current_cpu());
  if (likely(node == current_heap->node())) return current_heap->shard();
  return nodes[node].shard_for(current_heap->id());
}

NEAR_COLD bool enter_thread() {
  if (current_heap == &exited_heap) return false;
  start_library();
  is_new_child.store(false, std::memory_order_relaxed);  // relaxed: as in tells_tsan
  // ThreadSanitizer, where it starts a thread, allocates in it first.
  is_unknown_to_tsan = start.threads_are_announced && !thread_record.counted;
  {
    const Inside inside;  // the heap is neither parked nor owned
    if (take_own_heap(current_node()) == nullptr) return false;
  }
  profile::look_at_new_heap(*current_heap);
  const SavedErrno saved;
  handle_forks();
  count_this_thread(!start.threads_are_announced);
  return true;
}

// --- threads that are announced ---

void announce_threads(CreateThread* create) {
  start.threads_are_announced = true;
  create_helper_by(create);
}

void count_new_thread() {
  const SavedErrno saved;
  start_library();
  count_this_thread(false);
  count_thread(true);
}

void discount_new_thread() { discount_thread(); }

void mark_counted_thread() {
  if (is_unknown_to_tsan) {
    is_unknown_to_tsan = false;
    tell_taken();  // where the heap came from
  }
  thread_record.counted = true;
  if (watch_exit()) return;
  thread_record.counted = false;
  discount_thread();
}

// The rule: a thread gets a heap on its node at its first slow path there, but keeps a heap that it
// changed to for at least kSettle slow paths. So a thread that moves to another node soon has a
// local heap, and one that moves back and forth changes heaps at most once in kSettle slow paths.
// docs/decisions/0011-numa.md
void rehome_if_moved() {
  if (topology.count == 1) return;
  if (thread_record.moved && ++thread_record.unlooked == 0 && !purge_signal.present()) {
    clean_parked_heaps();
  }
  uint8_t& unsettled = thread_record.unsettled;
  if (unsettled > 0) unsettled--;
  if (unsettled > 0) return;
  const unsigned node = current_node();
  if (node == current_heap->node()) return;
  const Inside inside;  // one of the heaps is neither parked nor owned
  Heap* before = current_heap;
  Heap* heap = take_own_heap(node);
  if (heap == nullptr) return;
  profile::look_at_new_heap(*heap);
  park_own_heap(before);
  thread_record.moved = true;
  unsettled = kSettle;
  count_event(node_counters[node].rehomes);
}

// The threshold is at least the number of heaps, so that looking at all heaps adds little to each
// free.
void look_after_parked() {
  constexpr uint32_t kSeldom = 64;
  const size_t enough = min_of(max_of(kSeldom, heap_count()), UINT16_MAX);
  if (is_inside() || ++thread_record.returned < enough) return;
  thread_record.returned = 0;
  clean_parked_heaps();
}

uint64_t rehome_count() { return sum_of(&NodeCounters::rehomes); }

}  // namespace near

#include "front/thread.h"

#include <pthread.h>
#include <unistd.h>

#include "front/statistics.h"
#include "heap/purge_thread.h"
#include "heap/registry.h"
#include "node/memory.h"
#include "node/purge_signal.h"
#include "platform/cpu.h"
#include "platform/options.h"
#include "platform/saved_errno.h"

namespace near {

constinit Heap empty_heap;
constinit Heap exited_heap;
__thread Heap* current_heap NEAR_TLS_INITIAL_EXEC = &empty_heap;
__thread ThreadRecord thread_record NEAR_TLS_INITIAL_EXEC;

namespace {

// TSan ends its own account of a thread in the last round; nothing of ours may run after it.
// The last round is left out as well, for a thread whose first allocation is in a destructor.
constexpr uint8_t kExitRounds = PTHREAD_DESTRUCTOR_ITERATIONS - 1 - (NEAR_TSAN ? 1 : 0);
constexpr uint8_t kSettle = 8;  // slow paths between two changes of a thread's heap, at least

constinit Mutex start_lock{Rank::start};
constinit Atomic<bool> started{false};
pthread_key_t exit_key;
bool have_exit_key = false;

void before_fork() {
  start_lock.lock_for_fork();
  lock_purge_thread();
  lock_heaps();
  lock_memory();
}

void after_fork_in_parent() {
  unlock_memory();
  unlock_heaps();
  unlock_purge_thread(false);
  start_lock.unlock_for_fork();
}

void after_fork_in_child() {
  unlock_memory();
  unlock_heaps_in_child(has_heap() ? current_heap : nullptr);
  unlock_purge_thread(true);
  start_lock.unlock_for_fork();
}

}  // namespace

// Thread-specific destructors run in rounds, in no known order; those of other libraries may still
// allocate. So the key is set again until the last round that POSIX promises.
void on_thread_exit(void* heap) {
  if (++thread_record.exit_rounds < kExitRounds) {
    pthread_setspecific(exit_key, heap);
    return;
  }
  Heap* mine = current_heap;
  current_heap = &exited_heap;
  if (mine == &empty_heap || mine == &exited_heap) return;
  park_heap(mine);
  count_thread(-1);
}

NEAR_COLD void start_library() {
  if (started.load(kAcquire)) return;  // pairs: started
  const SavedErrno saved;
  const LockGuard guard(start_lock);
  if (started.load(kRelaxed)) return;  // relaxed: changed under the lock only
  read_options(environ);
  start_memory();
  have_exit_key = pthread_key_create(&exit_key, on_thread_exit) == 0;
  started.store(true, kRelease);  // pairs: started
}

// Before other libraries do the same, so that their handlers run while ours hold no lock and may
// allocate: at the first allocation, or by the constructor, which the shared library asks the
// loader to run first (-z initfirst). Registering may allocate: `current_heap` is set.
static void handle_forks() {
  static constinit Atomic<bool> done{false};
  if (done.exchange(true, kRelaxed)) return;  // relaxed: publishes nothing
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

// What can be done only when the process is far enough. The environment comes as an argument: the C
// library's own constructor may come later.
__attribute__((constructor)) static void finish_start(int, char**, char** environment) {
  read_options(environment);
  start_library();
  handle_forks();
  if (option(Option::stats) != 0) print_statistics_at_exit();
}

unsigned current_node() { return topology.count == 1 ? 0 : topology.node_of(current_cpu()); }

NEAR_COLD bool enter_thread() {
  if (current_heap == &exited_heap) return false;
  start_library();
  Heap* heap = take_heap(current_node());
  if (heap == nullptr) return false;
  current_heap = heap;
  const bool alone = count_thread(1) == 1;
  const SavedErrno saved;
  handle_forks();
  if (have_exit_key) pthread_setspecific(exit_key, heap);
  if (!alone) start_purge_thread();
  return true;
}

// The rule: a thread gets a heap on its node at its first slow path there. Only if it got its
// present one less than kSettle of its slow paths ago does it stay with that until so many have
// passed. So whoever moves is at home at once, and whoever comes and goes changes heaps once in
// kSettle slow paths at most. docs/decisions/0011-numa.md
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
  Heap* heap = take_heap(node);
  if (heap == nullptr) return;
  Heap* before = current_heap;
  current_heap = heap;
  park_heap(before);
  thread_record.moved = true;
  unsettled = kSettle;
  count_event(node_counters[node].rehomes);
}

uint64_t rehome_count() { return sum_of(&NodeCounters::rehomes); }

}  // namespace near

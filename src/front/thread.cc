#include "front/thread.h"

#include <pthread.h>

#include "front/statistics.h"
#include "heap/purge_thread.h"
#include "heap/registry.h"
#include "node/memory.h"
#include "platform/cpu.h"
#include "platform/options.h"
#include "platform/saved_errno.h"

namespace near {

constinit Heap empty_heap;
constinit Heap exited_heap;
__thread Heap* current_heap NEAR_TLS_INITIAL_EXEC = &empty_heap;

namespace {

// TSan ends its own account of a thread in the last round; nothing of ours may run after it.
constexpr uint8_t kExitRounds = PTHREAD_DESTRUCTOR_ITERATIONS - (NEAR_TSAN ? 1 : 0);
constexpr uint8_t kRehomeAfter =
    8;  // slow paths in a row on another node before a thread counts as moved

__thread uint8_t exit_rounds NEAR_TLS_INITIAL_EXEC = 0;
__thread uint8_t rounds_away NEAR_TLS_INITIAL_EXEC = 0;

constinit Mutex start_lock{Rank::start};
constinit Atomic<bool> started{false};
pthread_key_t exit_key;
bool have_exit_key = false;
constinit Atomic<uint64_t> rehomes{0};

// Thread-specific destructors run in rounds, in no known order; those of other libraries may still
// allocate. So the key is set again until the last round that POSIX promises.
void on_thread_exit(void* heap) {
  if (++exit_rounds < kExitRounds) {
    pthread_setspecific(exit_key, heap);
    return;
  }
  Heap* mine = current_heap;
  current_heap = &exited_heap;
  if (mine == &empty_heap || mine == &exited_heap) return;
  park_heap(mine);
  count_thread(-1);
}

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

NEAR_COLD void start_library() {
  if (started.load(kAcquire)) return;  // pairs: started
  const SavedErrno saved;
  const LockGuard guard(start_lock);
  if (started.load(kRelaxed)) return;  // relaxed: changed under the lock only
  read_options();
  start_memory();
  have_exit_key = pthread_key_create(&exit_key, on_thread_exit) == 0;
  started.store(true, kRelease);  // pairs: started
}

// Registered when the process is far enough: pthread_atfork and atexit allocate.
__attribute__((constructor)) static void finish_start() {
  start_library();
  read_options();
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  if (option(Option::stats) != 0) print_statistics_at_exit();
}

unsigned current_node() { return topology.count == 1 ? 0 : topology.node_of(current_cpu()); }

NEAR_COLD bool enter_thread() {
  if (current_heap == &exited_heap) return false;
  start_library();
  Heap* heap = take_heap(current_node());
  if (heap == nullptr) return false;
  current_heap = heap;
  count_thread(1);
  const SavedErrno saved;
  if (have_exit_key) pthread_setspecific(exit_key, heap);
  if (heap->id() != 0) start_purge_thread();
  return true;
}

void rehome_if_moved() {
  if (topology.count == 1) return;
  const unsigned node = current_node();
  if (node == current_heap->node()) {
    rounds_away = 0;
    return;
  }
  if (++rounds_away < kRehomeAfter) return;
  rounds_away = 0;
  Heap* heap = take_heap(node);
  if (heap == nullptr) return;
  Heap* before = current_heap;
  current_heap = heap;
  park_heap(before);
  rehomes.fetch_add(1, kRelaxed);  // relaxed: a statistic
}

uint64_t rehome_count() { return rehomes.load(kRelaxed); }  // relaxed: a statistic

}  // namespace near

#include "heap/purge_thread.h"

#include <pthread.h>

#include <csignal>
#include <ctime>

#include "heap/registry.h"
#include "node/memory.h"
#include "node/purge_signal.h"
#include "platform/affinity.h"
#include "platform/options.h"
#include "platform/saved_errno.h"
#include "sync/mutex.h"

namespace near {
namespace {

constexpr uint32_t kRoundMs = 100;  // between two rounds at least
constexpr uint32_t kPatienceMs =
    3200;  // between two looks at memory that waits for a sleeping owner, at most
constexpr size_t kStackBytes = 128 * kKiB;

constinit Mutex thread_lock{Rank::purge_thread};
bool running = false;  // guard: thread_lock
constinit Atomic<int> threads{0};

void sleep_ms(uint32_t milliseconds) {
  struct timespec time{static_cast<time_t>(milliseconds / 1000),
                       static_cast<long>(milliseconds % 1000) * 1'000'000};
  nanosleep(&time, nullptr);
}

bool is_dirty() {
  for (unsigned n = 0; n < topology.count; n++) {
    if (nodes[n].dirty_bytes() > 0) return true;
  }
  return false;
}

// True if this thread shall end: nobody is left to work for.
bool end_if_alone() {
  const LockGuard guard(thread_lock);
  // relaxed: whoever comes later starts a new thread under the lock
  if (threads.load(kRelaxed) > 0) return false;
  running = false;
  purge_signal.set_present(false);
  return true;
}

struct Found {
  bool waiting = false;  // something for its owner
  size_t purged = 0;
};

void visit(unsigned node, Found& found) {
  found.waiting |= clean_heaps(false, node);
  found.purged += nodes[node].purge(static_cast<uint32_t>(option(Option::decay_ms)), 0);
}

// Each node from CPUs of its own: what is there stays out of the caches of the others.
Found visit_nodes() {
  Found found;
  if (topology.count == 1) {
    visit(0, found);
    return found;
  }
  const Affinity affinity;
  for (unsigned n = 0; n < topology.count; n++) {
    affinity.move_to(topology, n);
    visit(n, found);
  }
  affinity.spread();
  return found;
}

void* run(void*) {
  uint32_t patience = kRoundMs;
  while (!end_if_alone()) {
    purge_signal.begin_round();
    const uint64_t claims_before = heap_totals().claims;
    const auto [waiting, purged] = visit_nodes();
    const bool useful = purged > 0 || heap_totals().claims != claims_before;
    patience = useful || !waiting
                   ? kRoundMs
                   : static_cast<uint32_t>(min_of(size_t{patience} * 2, kPatienceMs));
    sleep_ms(kRoundMs);
    if (is_dirty()) continue;
    purge_signal.wait(waiting ? patience : 0);
  }
  return nullptr;
}

bool create_thread() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  bool created = pthread_create(&thread, &attributes, run, nullptr) == 0;
  if (!created) {  // a program with much thread-local memory needs a larger stack
    pthread_attr_setstacksize(&attributes, 8 * kMiB);
    created = pthread_create(&thread, &attributes, run, nullptr) == 0;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return created;
}

}  // namespace

void start_purge_thread() {
  if (option(Option::purge_thread) == 0) return;
  const SavedErrno saved;
  {
    const LockGuard guard(thread_lock);
    if (running) return;
    running = true;  // before it is so: creating a thread allocates, and must not come here again
  }
  purge_signal.set_present(true);  // first: what is asked from now on is found by its first round
  if (create_thread()) return;
  const LockGuard guard(thread_lock);
  running = false;
  purge_signal.set_present(false);
}

int count_thread(int change) {
  // relaxed: end_if_alone decides under the lock
  const int left = threads.fetch_add(change, kRelaxed) + change;
  if (left == 0) purge_signal.ask();
  return left;
}

void lock_purge_thread() { thread_lock.lock_for_fork(); }

void unlock_purge_thread(bool in_child) {
  if (in_child) {
    running = false;
    purge_signal.set_present(false);
    threads.store(1, kRelaxed);  // relaxed: one thread lives
  }
  thread_lock.unlock_for_fork();
}

}  // namespace near

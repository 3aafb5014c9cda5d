#include "heap/purge_thread.h"

#include <pthread.h>

#include <csignal>

#include "heap/give_back.h"
#include "heap/registry.h"
#include "heap/start_ration.h"
#include "node/memory.h"
#include "node/purge_signal.h"
#include "platform/affinity.h"
#include "platform/clock.h"
#include "platform/fence.h"
#include "platform/futex.h"
#include "platform/helper.h"
#include "platform/options.h"
#include "platform/saved_errno.h"
#include "sync/mutex.h"
#include "sync/tsan.h"

namespace near {
namespace {

constexpr uint32_t kRoundMs = 100;  // least time between two rounds
constexpr uint32_t kPatienceMs =
    3200;  // longest time between two looks at memory that waits for an idle owner
constexpr size_t kStackBytes = 128 * kKiB;

enum State : uint32_t { absent, starting, running, stopping };

alignas(64) constinit Mutex thread_lock{Rank::purge_thread};
constinit Atomic<uint32_t> state{absent};        // changed under the lock, awaited without it
constinit Atomic<int> threads{0};                // changed under thread_lock
constinit StartRation ration;                    // guard: thread_lock
pthread_t helper;                                // written before `state` becomes running
bool stray = false;                              // another thread than the main one created it
CreateThread* create_function = pthread_create;  // set before there are threads

// --- the thread ---

struct Found {
  bool waiting = false;  // an inbox waits for its owner
  // blocks wait in magazines or depots, heaps keep runs, or memory is dirty or unused
  bool holding = false;
  bool refused = false;  // the system refused to take memory
  size_t purged = 0;
};

bool is_over() { return purge_signal.stopping(); }

void visit(unsigned node, Found& found) {
  found.holding |= give_back_magazines(false, node);
  const Uncleaned left = clean_heaps(false, node);
  found.waiting |= left.waiting;
  found.holding |= left.keeping;
  if (is_over()) return;
  const uint64_t calls_before = nodes[node].totals().purge_calls;
  const size_t purged = nodes[node].purge(static_cast<uint32_t>(option(Option::decay_ms)), is_over);
  found.purged += purged;
  found.refused |= purged == 0 && nodes[node].totals().purge_calls != calls_before;
  found.holding |= nodes[node].dirty_bytes() > 0 || nodes[node].has_unused();
}

// Visits each node from its own CPUs, so that its data stay out of the caches of the others.
Found visit_nodes() {
  Found found;
  if (topology.count == 1) {
    visit(0, found);
    return found;
  }
  const Affinity affinity;
  for (unsigned n = 0; n < topology.count && !is_over(); n++) {
    affinity.move_to(topology, n);
    visit(n, found);
  }
  affinity.spread();
  return found;
}

// Returns the shorter of two waits; a wait of 0 has no limit.
uint32_t shorter_wait(uint32_t a, uint32_t b) {
  return a == 0 || b == 0 ? a + b : static_cast<uint32_t>(min_of(size_t{a}, b));
}

uint32_t more_patience(uint32_t patience) {
  return static_cast<uint32_t>(min_of(size_t{patience} * 2, kPatienceMs));
}

void* run(void*) {
  bool capable = become_helper("nearmalloc", stray);
  uint32_t patience = kRoundMs;  // wait while an inbox has spans of an idle owner
  uint32_t watch = kRoundMs;     // between looks at the main thread's capabilities, until given up
  uint32_t pause = kRoundMs;     // longer when the system refuses a purge (locked memory)
  while (true) {
    purge_signal.begin_round();
    if (is_over()) return nullptr;
    if (capable) capable = follow_capabilities();
    watch = capable ? more_patience(watch) : 0;
    const uint64_t claims_before = heap_totals().claims;
    const auto [waiting, holding, refused, purged] = visit_nodes();
    const bool useful = purged > 0 || heap_totals().claims != claims_before;
    patience = useful || !waiting ? kRoundMs : more_patience(patience);
    pause = purged == 0 && refused ? more_patience(pause) : kRoundMs;
    purge_signal.pause(pause);
    if (is_over()) return nullptr;
    if (holding) continue;
    purge_signal.wait(shorter_wait(waiting ? patience : 0, watch));
  }
}

// --- starting and stopping it ---

// Blocks all signals while the thread is created, because the thread inherits that mask.
bool create_thread() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, kStackBytes);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  stray = !is_main_thread();
  bool created = create_function(&helper, &attributes, run, nullptr) == 0;
  if (!created) {  // a program with much thread-local memory needs a larger stack
    pthread_attr_setstacksize(&attributes, 8 * kMiB);
    created = create_function(&helper, &attributes, run, nullptr) == 0;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return created;
}

void join_thread() {
  int cancellation = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
  pthread_join(helper, nullptr);
  pthread_setcancelstate(cancellation, &cancellation);
}

// Waits, without the lock, until no thread starts or stops the helper.
void wait_until_settled() {
  while (true) {
    const uint32_t now = state.load(kAcquire);  // pairs: purge-state
    if (now != starting && now != stopping) return;
    futex_wait(state, now);
  }
}

void change_state(State next) {
  state.store(next, kRelease);  // pairs: purge-state
  futex_wake(state, INT32_MAX);
}

// Changes the state from `from` to `to` (a step) if `allowed` agrees. Waits for the end of another
// thread's step.
template <typename Allowed>
bool claim_step(State from, State to, Allowed allowed) {
  while (true) {
    wait_until_settled();
    const LockGuard guard(thread_lock);
    const uint32_t now = state.load(kRelaxed);  // relaxed: changed under the lock
    if (now == starting || now == stopping) continue;
    if (now != from || !allowed()) return false;
    state.store(to, kRelaxed);  // relaxed: other threads wait for the end of the step
    return true;
  }
}

unsigned cpu_count() {
  unsigned cpus = 0;
  for (unsigned n = 0; n < topology.count; n++) cpus += topology.cpus[n];
  return cpus;
}

// On a few processors a word that two of them write costs less than blocks that stay foreign: a
// block from a magazine is foreign again at its next free. docs/decisions/0027-foreign-frees.md
bool wants_magazines() {
  const long least = option(Option::magazines);
  return least != 0 && cpu_count() >= static_cast<unsigned long>(least);
}

// Release: a thread that sees that they are in use finds the depots' parts.
void use_magazines(bool use) {
  magazines_in_use.value.store(use, kRelease);  // pairs: magazines-in-use
}

// relaxed: changed under the lock, and else a policy
int thread_count() { return threads.load(kRelaxed); }

// ThreadSanitizer would not know the thread: it is created past the runtime.
bool is_wanted() {
  return thread_count() >= 2 && option(Option::purge_thread) != 0 && !is_under_tsan();
}

void finish_step(State next) {
  const LockGuard guard(thread_lock);
  change_state(next);
}

void start() {
  const auto allowed = [] { return is_wanted() && ration.take(coarse_now_ms()); };
  if (!claim_step(absent, starting, allowed)) return;
  const SavedErrno saved;
  purge_signal.reset();
  purge_signal.set_present(true);  // before the thread starts: its first round finds new requests
  // Before the thread is there: the kernel registers a process of one thread without waiting for
  // the other processors, which takes milliseconds.
  const bool registered = wants_magazines() && register_membarrier();
  const bool created = create_thread();
  if (!created) purge_signal.set_present(false);
  if (created && registered && make_depots()) use_magazines(true);
  finish_step(created ? running : absent);
}

// Ends the helper if `unwanted()` says so under the lock. False if it did not run.
template <typename Unwanted>
bool stop(Unwanted unwanted) {
  if (!claim_step(running, stopping, unwanted)) return false;
  const SavedErrno saved;
  purge_signal.set_present(false);
  use_magazines(false);
  purge_signal.stop();
  join_thread();
  finish_step(absent);
  // The process may make no further call, so this is the last chance: clean the heaps of threads
  // that ended, and give back what exceeds the limits of a process without a helper.
  give_back_magazines(true);
  clean_parked_heaps();
  for (unsigned n = 0; n < topology.count; n++) nodes[n].obey_limits();
  return true;
}

}  // namespace

void create_helper_by(CreateThread* create) { create_function = create; }

void count_thread(bool may_start) {
  bool look = false;
  {
    const LockGuard guard(thread_lock);
    threads.store(thread_count() + 1, kRelaxed);  // relaxed: as thread_count
    // relaxed: changed under the lock
    look = may_start && is_wanted() && state.load(kRelaxed) != running;
  }
  if (look) start();
}

void discount_thread() {
  bool look = false;
  {
    const LockGuard guard(thread_lock);
    threads.store(thread_count() - 1, kRelaxed);                  // relaxed: as thread_count
    look = thread_count() < 2 && state.load(kRelaxed) != absent;  // relaxed: changed under the lock
  }
  if (look) stop([] { return thread_count() < 2; });
}

void obey_purge_option() {
  if (option(Option::purge_thread) != 0) {
    start();
  } else {
    stop([] { return option(Option::purge_thread) == 0; });
  }
}

bool give_up_purge_thread() {
  return stop([] {
    ration.exhaust(coarse_now_ms());
    return true;
  });
}

void lock_purge_thread() { thread_lock.lock_for_fork(); }

void unlock_purge_thread() { thread_lock.unlock_for_fork(); }

void forget_purge_thread(int counted) {
  use_magazines(false);
  forget_giving_back();
  threads.store(counted, kRelaxed);  // relaxed: one thread lives
  state.store(absent, kRelaxed);     // relaxed: one thread lives
  purge_signal.set_present(false);
  purge_signal.reset();
}

}  // namespace near

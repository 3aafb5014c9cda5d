#include "designs/numalloc/binding/binding.h"

#include <sched.h>

#include <cstring>

#include "base/atomic.h"
#include "designs/numalloc/binding/rules.h"
#include "designs/shared/machine.h"
#include "designs/shared/ranks.h"
#include "platform/message.h"
#include "platform/saved_errno.h"

namespace near::design::numalloc::binding {
namespace {

using design::current_node;
using design::topology;

// A set of processors for system calls, larger than cpu_set_t.
struct Processors {
  static constexpr unsigned kWord = 8 * sizeof(unsigned long);
  unsigned long words[kMaxCpus / kWord] = {};

  bool has(unsigned cpu) const { return (words[cpu / kWord] >> cpu % kWord & 1) != 0; }
  void add(unsigned cpu) { words[cpu / kWord] |= 1UL << cpu % kWord; }
  unsigned count() const {
    unsigned sum = 0;
    for (const unsigned long word : words) sum += static_cast<unsigned>(__builtin_popcountl(word));
    return sum;
  }
  cpu_set_t* set() { return reinterpret_cast<cpu_set_t*>(words); }
};

constinit Mutex lock{design::kInnermostRank};  // guards everything here that is not atomic
Policy policy = Policy::off;
Rules rules;
Processors process_mask;
unsigned capacity[kMaxNodes];  // processors of each node
uint64_t on_node[kMaxNodes];   // bound threads that are alive
uint64_t created = 0;          // threads created, including the first
unsigned first_node = 0;       // node of the first thread
unsigned last_chosen = 0;
pthread_key_t end_key;
bool have_end_key = false;
bool may_pin = false;  // the process may use all processors
constinit Atomic<bool> active{false};
constinit Atomic<uint64_t> bound{0};
constinit Atomic<uint64_t> left_alone{0};
constinit Atomic<uint64_t> refused{0};

void on_thread_end(void* value) {
  forget_thread(static_cast<int>(reinterpret_cast<intptr_t>(value)) - 1);
}

// Counts the processors of each node. A given topology ends after the last one not of node 0.
void count_processors() {
  unsigned end = 1;
  for (unsigned cpu = 0; cpu < kMaxCpus; cpu++) {
    if (topology().real ? process_mask.has(cpu) : topology().node_of(cpu) != 0) end = cpu + 1;
  }
  for (unsigned cpu = 0; cpu < end; cpu++) {
    if (!topology().real || process_mask.has(cpu)) capacity[topology().node_of(cpu)]++;
  }
}

// The next node with the fewest bound threads. Nodes that have only memory get no threads.
unsigned interleaved() {
  unsigned best = kMaxNodes;
  for (unsigned i = 1; i <= topology().count; i++) {
    const unsigned node = (last_chosen + i) % topology().count;
    if (capacity[node] == 0) continue;
    if (best == kMaxNodes || on_node[node] < on_node[best]) best = node;
  }
  return best;
}

// The first node, from that of the first thread on, that has a processor without a thread; if there
// is none, one with fewer than two threads for each processor, and so on.
unsigned saturated() {
  for (uint64_t share = 1;; share++) {
    for (unsigned i = 0; i < topology().count; i++) {
      const unsigned node = (first_node + i) % topology().count;
      if (on_node[node] < share * capacity[node]) return node;
    }
  }
}

int chosen_for(uint64_t thread) {
  Rule rule{0, 0, Rule::Kind::interleave, 0};
  if (policy == Policy::saturate) rule.kind = Rule::Kind::saturate;
  if (policy == Policy::file) rule = rules.find(thread);
  switch (rule.kind) {
    case Rule::Kind::any:
      return kAnywhere;
    case Rule::Kind::node:
      last_chosen = rule.node;
      break;
    case Rule::Kind::interleave:
      last_chosen = interleaved();
      break;
    case Rule::Kind::saturate:
      last_chosen = saturated();
      break;
  }
  return static_cast<int>(last_chosen);
}

// The first thread stays where it runs, unless a rule names a node.
int node_of_first() {
  const Rule rule = rules.find(0);
  first_node = last_chosen = current_node();
  if (policy == Policy::file && rule.kind == Rule::Kind::any) return kNobody;
  if (policy == Policy::file && rule.kind == Rule::Kind::node) last_chosen = rule.node;
  first_node = last_chosen;
  return static_cast<int>(last_chosen);
}

bool names_processors(const pthread_attr_t* attributes) {
  Processors named;
  memset(named.words, 0xff, sizeof named.words);
  if (attributes == nullptr) return false;
  if (pthread_attr_getaffinity_np(attributes, sizeof named.words, named.set()) != 0) return true;
  return named.count() < kMaxCpus;
}

// The processors for a thread of this node; with kNobody or kAnywhere, all of the process.
Processors mask_of(int node) {
  Processors processors;
  for (unsigned cpu = 0; cpu < kMaxCpus; cpu++) {
    const bool of_node = node < 0 || topology().node_of(cpu) == static_cast<unsigned>(node);
    if (of_node && process_mask.has(cpu)) processors.add(cpu);
  }
  return processors.count() == 0 && !topology().real ? process_mask : processors;
}

bool run_on(int node) {
  if (!may_pin) return true;
  Processors processors = mask_of(node);
  return sched_setaffinity(0, sizeof processors.words, processors.set()) == 0;
}

// False if the calling thread, or the thread that created it, has set another mask than we did: its
// mask stays, and its children inherit it.
bool own_mask_is_ours() {
  if (!may_pin) return true;
  Processors now;
  const Processors ours = mask_of(own_node);
  return sched_getaffinity(0, sizeof now.words, now.set()) == 0 &&
         memcmp(now.words, ours.words, sizeof now.words) == 0;
}

}  // namespace

constinit __thread int own_node NEAR_TLS_INITIAL_EXEC = kNobody;

void start(Policy chosen, const char* path) {
  const SavedErrno saved;
  if (topology().count == 1 || chosen == Policy::off) return;
  if (sched_getaffinity(0, sizeof process_mask.words, process_mask.set()) < 0) return;
  may_pin = process_mask.count() >= design::processors();
  if (topology().real && !may_pin) return;
  policy = chosen;
  if (policy == Policy::file && !rules.read(path, topology().count)) {
    message("binding: %s cannot be read; threads are interleaved", path);
    policy = Policy::interleave;
  }
  count_processors();
  have_end_key = pthread_key_create(&end_key, on_thread_end) == 0;
  active.store(true, kRelease);  // pairs: binding-active
}

int choose_node(const pthread_attr_t* attributes) {
  if (!active.load(kAcquire)) return kNobody;  // pairs: binding-active
  const SavedErrno saved;
  const bool pinned = !own_mask_is_ours();
  const bool named = pinned || names_processors(attributes);
  int first = kNobody;
  int node = kNobody;
  {
    const LockGuard guard(lock);
    if (created == 0) {
      created = 1;
      first = node_of_first();
      if (pinned) first = kNobody;
      if (first >= 0) on_node[first]++;
    }
    const uint64_t thread = created++;
    if (!named) node = chosen_for(thread);
    if (node >= 0) on_node[node]++;
  }
  if (first >= 0) bind_self(first);
  if (node < 0) left_alone.fetch_add(1, kRelaxed);  // relaxed: a statistic
  return node;
}

void forget_thread(int node) {
  const LockGuard guard(lock);
  if (node >= 0 && on_node[node] > 0) on_node[node]--;
}

void bind_self(int node) {
  const SavedErrno saved;
  if (!run_on(node)) {
    refused.fetch_add(1, kRelaxed);  // relaxed: a statistic
    run_on(kAnywhere);               // undoes the mask inherited from its creator
    forget_thread(node);
    return;
  }
  if (node == kAnywhere) return;
  own_node = node;
  if (have_end_key) pthread_setspecific(end_key, reinterpret_cast<void*>(intptr_t{node} + 1));
  bound.fetch_add(1, kRelaxed);  // relaxed: a statistic
}

void lock_for_fork() { lock.lock_for_fork(); }

void unlock_after_fork(bool child) {
  lock.unlock_for_fork();
  if (!child) return;
  const SavedErrno saved;
  if (own_node >= 0 && own_mask_is_ours()) run_on(kAnywhere);
  if (have_end_key) pthread_setspecific(end_key, nullptr);
  own_node = kNobody;
  memset(on_node, 0, sizeof on_node);
  created = 0;
}

Counts counts() {
  // relaxed: statistics
  return {bound.load(kRelaxed), left_alone.load(kRelaxed), refused.load(kRelaxed)};
}

uint64_t threads_on(unsigned node) {
  const LockGuard guard(lock);
  return on_node[node];
}

}  // namespace near::design::numalloc::binding

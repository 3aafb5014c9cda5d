#include "heap/registry.h"

#include <pthread.h>

#include <new>

#include "base/assert.h"
#include "base/list.h"
#include "node/memory.h"
#include "platform/clock.h"

namespace near {

constinit Atomic<Heap*> all_heaps[kMaxHeaps];
constinit Atomic<uint32_t> heaps_made{0};

namespace {

Heap::Registration& registration_of(Heap& heap) { return heap.registration; }

constexpr unsigned kAdoptTries = 32;  // parked heaps looked at for one span

constinit uint8_t heap_nodes[kMaxHeaps];  // by number; written before all_heaps[number]
// Guards the numbers; taken last.
alignas(64) constinit Mutex numbers_lock{Rank::numbers};
uint32_t locked_for_fork = 0;  // heaps; guard: numbers_lock
constinit Atomic<uint64_t> claims{0};

// The heaps of one node that have no thread. Nodes share no cache line here.
struct alignas(128) NodeHeaps {
  Mutex lock{Rank::registry};
  List<Heap, registration_of> parked;  // newest first; guard: lock
  Atomic<uint32_t> parked_count{0};
  Atomic<Heap*> fallback{nullptr};
  Atomic<Heap*> of_node{nullptr};
};
constinit NodeHeaps heaps_of[kMaxNodes];

// The first heap needs no system call: programs with one thread start fast.
alignas(Heap) char first_heap_room[sizeof(Heap)];

bool has_number(uint32_t kept) {
  return heaps_made.load(kRelaxed) + kept < most_heaps.load(kRelaxed);  // relaxed: limits
}

// The shard for one more heap of the node: a new one, until there are as many as there may be.
Shard& shard_for_heap(Node& node) {
  const uint32_t number = node.count_heap();
  if (number > 0 && number < node.most_shards()) {
    if (Shard* added = add_shard(node)) return *added;
  }
  // The heaps beyond that number begin at shard 0 again, also while some shards are being made.
  return node.shard_for(number % node.most_shards());
}

// Needs no lock, so that threads that start together do not wait for each other. Null if at most
// `kept` numbers are left, which are reserved, or if memory is refused.
Heap* make_heap(unsigned node, uint32_t kept) {
  if (!has_number(kept)) return nullptr;
  static constinit Atomic<bool> first_is_taken{false};
  const bool first = !first_is_taken.exchange(true, kRelaxed);  // relaxed: publishes nothing
  void* room = first ? first_heap_room : nodes[node].take_metadata(sizeof(Heap));
  if (room == nullptr) return nullptr;
  Shard& shard = shard_for_heap(nodes[node]);
  Heap* heap = new (room) Heap(shard);
  const LockGuard guard(numbers_lock);
  if (!has_number(kept)) return nullptr;          // other threads made as many meanwhile
  const uint32_t id = heaps_made.load(kRelaxed);  // relaxed: changed under the lock only
  heap->set_id(id);
  heap_nodes[id] = static_cast<uint8_t>(node);
  all_heaps[id].store(heap, kRelease);  // pairs: heap-made
  heaps_made.store(id + 1, kRelease);   // pairs: heap-made
  return heap;
}

// Requires the lock of the heap's node. `offers`: see Registration.
void push_parked(Heap* heap, const ClassSet& offers) {
  NodeHeaps& home = heaps_of[heap->node()];
  heap->registration.parked = true;
  heap->registration.thread = 0;
  heap->registration.offers = offers;
  home.parked.push_front(heap);
  // relaxed: a hint, changed under the lock
  home.parked_count.store(home.parked_count.load(kRelaxed) + 1, kRelaxed);
}

// Takes a parked heap out of the list.
Heap* pop_parked(Heap* heap) {
  NodeHeaps& home = heaps_of[heap->node()];
  home.parked.remove(heap);
  heap->registration.parked = false;
  // relaxed: as above
  home.parked_count.store(home.parked_count.load(kRelaxed) - 1, kRelaxed);
  return heap;
}

// Requires the node's lock. Returns a heap for many threads; `kept` as for make_heap.
Heap* take_shared(unsigned node, bool home_only, uint32_t kept) {
  Heap* heap = heaps_of[node].parked.front();
  for (unsigned i = 1; home_only && heap != nullptr && heap->has_foreign(); i++) {
    heap = i < kAdoptTries ? heap->registration.next : nullptr;
  }
  heap = heap != nullptr ? pop_parked(heap) : make_heap(node, kept);
  if (heap == nullptr) return nullptr;
  heap->home_only = home_only;
  heap->shared.store(true, kRelaxed);  // relaxed: see is_shared
  return heap;
}

// Returns the heap of a slot. The first call fills it.
Heap* shared_heap(Atomic<Heap*>& slot, unsigned node, bool home_only) {
  Heap* heap = slot.load(kAcquire);  // pairs: shared-heap
  if (heap != nullptr) return heap;
  const LockGuard guard(heaps_of[node].lock);
  heap = slot.load(kRelaxed);  // relaxed: changed under the lock only
  if (heap != nullptr) return heap;
  heap = take_shared(node, home_only, 0);
  slot.store(heap, kRelease);  // pairs: shared-heap
  return heap;
}

// Takes the heap of the node that was parked last. Null if there is none.
Heap* take_parked(unsigned node) {
  if (heaps_of[node].parked_count.load(kRelaxed) == 0) return nullptr;  // relaxed: a hint
  const LockGuard guard(heaps_of[node].lock);
  Heap* heap = heaps_of[node].parked.front();
  return heap != nullptr ? pop_parked(heap) : nullptr;
}

// Puts a heap into the list that its thread no longer uses, or that was taken out. The caller holds
// its lock and the owner's rights.
void list_parked(Heap* heap) {
  const ClassSet offers = heap->offers();
  const LockGuard guard(heaps_of[heap->node()].lock);
  push_parked(heap, offers);
}

}  // namespace

constinit Atomic<uint32_t> most_heaps{kMaxHeaps};

// The thread is noted without a system call: its own filter of system calls may forbid them.
Heap* take_heap(unsigned node) {
  Heap* heap = take_parked(node);
  if (heap == nullptr) heap = make_heap(node, kKeptHeaps);
  if (heap != nullptr) heap->registration.thread = reinterpret_cast<uintptr_t>(pthread_self());
  return heap;
}

void park_heap(Heap* heap) {
  const LockGuard heap_guard(heap->lock);
  heap->drain();
  heap->drop_cache();
  heap->count_hot();
  heap->clean = false;
  heap->shared.store(false, kRelaxed);  // relaxed: see is_shared
  heap->home_only = false;
  list_parked(heap);
}

Heap* fallback_heap(unsigned node) { return shared_heap(heaps_of[node].fallback, node, false); }

Heap* node_heap(unsigned node) { return shared_heap(heaps_of[node].of_node, node, true); }

Heap* take_bound_heap(unsigned node) {
  const LockGuard guard(heaps_of[node].lock);
  return take_shared(node, true, kKeptHeaps);
}

Heap* heap_by_id(uint32_t id) { return all_heaps[id].load(kAcquire); }  // pairs: heap-made

bool is_heap_of(uint32_t id, unsigned node) { return node == kEveryNode || heap_nodes[id] == node; }

uint32_t heap_count() { return heaps_made.load(kAcquire); }  // pairs: heap-made

namespace {

// Takes a parked heap that may have blocks of the class, and locks it. Requires the node's lock. It
// only tries the heaps' locks: the caller holds its own heap's lock, and a forking thread may hold
// others and wait for that one.
Heap* take_offering(unsigned node, unsigned size_class) {
  Heap* heap = heaps_of[node].parked.front();
  for (unsigned i = 0; i < kAdoptTries && heap != nullptr; i++, heap = heap->registration.next) {
    const bool offers = heap->registration.offers.has(size_class);
    if (!offers && heap->inbox_empty()) continue;
    if (heap->lock.try_lock()) return pop_parked(heap);
  }
  return nullptr;
}

// As take_offering. If another thread has the node's lock, it waits only if told to: threads that
// allocate at the same time should not wait for each other.
Heap* take_with_blocks(unsigned node, unsigned size_class, bool waits) {
  Mutex& lock = heaps_of[node].lock;
  if (waits) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return nullptr;
  }
  Heap* heap = take_offering(node, size_class);
  lock.unlock();
  return heap;
}

}  // namespace

Span* adopt_span(Heap& adopter, unsigned size_class, bool waits) {
  const unsigned node = adopter.node();
  if (heaps_of[node].parked_count.load(kRelaxed) == 0) return nullptr;  // relaxed: a hint
  Heap* parked = take_with_blocks(node, size_class, waits);
  if (parked == nullptr) return nullptr;
  parked->drain();
  Span* span = parked->release_span(size_class, adopter);
  list_parked(parked);
  parked->lock.unlock();
  if (span != nullptr) count_event(node_counters[node].adoptions);
  return span;
}

// --- cleaning ---

namespace {

// Takes the heap out of the list if it is parked. unpark_to_list puts it back.
bool take_if_parked(Heap* heap) {
  const LockGuard guard(heaps_of[heap->node()].lock);
  if (!heap->registration.parked) return false;
  pop_parked(heap);
  return true;
}

// Takes one heap at a time out of the list, so that threads that start meanwhile find the others.
void visit_parked_of(unsigned node, void (*visit)(Heap& heap, void* argument), void* argument) {
  const uint32_t count = heap_count();
  for (uint32_t id = 0; id < count; id++) {
    if (!is_heap_of(id, node)) continue;
    Heap* heap = heap_by_id(id);
    const Inside inside;  // the heap is neither parked nor owned
    if (!take_if_parked(heap)) continue;
    const LockGuard guard(heap->lock);
    visit(*heap, argument);
    list_parked(heap);
  }
}

}  // namespace

void visit_parked_heaps(void (*visit)(Heap& heap, void* argument), void* argument) {
  visit_parked_of(kEveryNode, visit, argument);
}

void visit_shared_heaps(void (*visit)(Heap& heap, void* argument), void* argument) {
  const uint32_t count = heap_count();
  for (uint32_t id = 0; id < count; id++) {
    Heap* heap = heap_by_id(id);
    if (!heap->is_shared()) continue;
    const LockGuard guard(heap->lock);
    if (heap->is_shared()) visit(*heap, argument);
  }
}

namespace {

void flush_parked(unsigned node, bool everything) {
  visit_parked_of(
      node,
      [](Heap& heap, void* all) {
        if (heap.clean && heap.inbox_empty() && !*static_cast<bool*>(all)) return;
        heap.flush();
        heap.clean = true;
      },
      &everything);
}

}  // namespace

void clean_parked_heaps() {
  for (unsigned n = 0; n < topology.count; n++) {
    if (heaps_of[n].parked_count.load(kRelaxed) > 0) flush_parked(n, false);  // relaxed: a hint
  }
}

Uncleaned clean_heaps(bool everything, unsigned node) {
  flush_parked(node, everything);
  Uncleaned left{};
  const uint64_t now_ms = coarse_now_ms();
  const uint32_t count = heap_count();
  for (uint32_t id = 0; id < count; id++) {
    if (!is_heap_of(id, node)) continue;
    Heap* heap = heap_by_id(id);
    const uint64_t visits = heap->visits();
    const bool asleep = heap->seen_visits.exchange(visits, kRelaxed) == visits;  // relaxed: a hint
    if (asleep || everything) {
      const LockGuard guard(heap->lock);
      const uint32_t claimed = heap->claim_for_sleeper();
      if (claimed > 0) claims.fetch_add(claimed, kRelaxed);  // relaxed: a statistic
      if (heap->is_shared()) {
        heap->flush();
      } else {
        heap->drop_cache();
      }
    } else {
      heap->ask_to_look();
      if (heap->keeps_runs()) {
        const LockGuard guard(heap->lock);
        heap->drop_unused_runs();
      }
    }
    heap->sweep_if_at_rest(everything, now_ms);
    left.waiting |= !heap->inbox_empty();
    left.keeping |= heap->keeps_runs() || heap->at_rest.waits();
  }
  return left;
}

HeapTotals heap_totals() {
  HeapTotals totals{};
  totals.heaps = heap_count();
  for (unsigned n = 0; n < topology.count; n++)
    totals.parked += heaps_of[n].parked_count.load(kRelaxed);  // relaxed: statistics
  totals.adoptions = sum_of(&NodeCounters::adoptions);
  totals.claims = claims.load(kRelaxed);  // relaxed: a statistic
  return totals;
}

HeapState state_of_heap(uint32_t id) {
  if (id >= heap_count()) return HeapState::unknown;
  const Heap* heap = heap_by_id(id);
  Mutex& lock = heaps_of[heap->node()].lock;
  if (!lock.try_lock()) return HeapState::unknown;
  const HeapState found = heap->is_shared()           ? HeapState::shared
                          : heap->registration.parked ? HeapState::parked
                                                      : HeapState::taken;
  lock.unlock();
  return found;
}

// --- fork ---

namespace {

void lock_registry() {
  for (unsigned n = 0; n < topology.count; n++) heaps_of[n].lock.lock_for_fork();
  numbers_lock.lock_for_fork();
}

void unlock_registry() {
  numbers_lock.unlock_for_fork();
  for (unsigned n = topology.count; n-- > 0;) heaps_of[n].lock.unlock_for_fork();
}

}  // namespace

void lock_heaps() {
  uint32_t locked = 0;
  while (true) {
    for (const uint32_t count = heap_count(); locked < count; locked++)
      heap_by_id(locked)->lock.lock_for_fork();
    lock_registry();
    locked_for_fork = locked;
    if (locked == heap_count()) return;
    unlock_registry();  // a heap was made meanwhile
  }
}

// Another thread may have locked a heap that was made after lock_heaps. In the parent that thread
// holds the lock, so this does not release it; in the child no thread does, and this releases it.
void unlock_heaps() {
  const uint32_t locked = locked_for_fork;
  unlock_registry();
  for (uint32_t id = locked; id-- > 0;) heap_by_id(id)->lock.unlock_for_fork();
}

void unlock_heaps_in_child(const Heap* mine) {
  // Threads that do not exist here may have been writing a list's head and its first block's link.
  std::atomic_thread_fence(kAcquire);  // pairs: forked-list
  for (uint32_t id = 0; id < heap_count(); id++) {
    Heap* heap = heap_by_id(id);
    if (heap == mine || heap->registration.parked || heap->is_shared()) {
      if (Magazines* magazines = heap->magazines()) magazines->gate().open();
      continue;
    }
    heap->clean = false;
    heap->registration.interrupted = true;
    heap->countdown.reset();  // its thread may have been taking a sample
    if (Magazines* magazines = heap->magazines()) magazines->gate().reset();
    push_parked(heap, heap->offers());
  }
  locked_for_fork = heap_count();
  unlock_heaps();
}

}  // namespace near

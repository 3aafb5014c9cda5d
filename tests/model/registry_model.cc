// Model of making and finding heaps (heap/registry.cc): numbers, the fallback heap, and fork, which
// takes every lock.
//
// Invariants: a number below heap_count(), and one found in a span, names a heap that is complete;
// all threads without a heap share one fallback heap; while fork holds the locks no heap is made
// and none is inside a slow path; fork and all other threads take locks in an order without a
// cycle.
// Bound: 2 heaps; a thread that makes one, gives a span of it away and parks it; a thread that
// frees into that span and uses the fallback heap; the purge thread, which looks at all heaps and
// uses the fallback one; a thread that forks.
#include "runner.h"
#include "span/remote_list.h"
#include "sync/inbox.h"
#include "sync/mutex.h"

namespace near::model {
namespace {

constexpr uint32_t kMaxHeaps = 3;

struct Block {
  Plain<Block*> next;

  void link_to(Block* block) { next = block; }
  void link_to_end() { next = nullptr; }
};

struct Span {
  RemoteList<Block> remote;
  Plain<Span*> pending_next;
  Block block;

  Block* at(uint32_t) const { return const_cast<Block*>(&block); }
  uint32_t index_of(const Block*) const { return 0; }
};

struct Heap {
  Plain<uint32_t> id;
  Plain<uint32_t> visits;
  Plain<bool> inside;  // in a slow path; guard: lock
  Plain<bool> parked;  // guard: the registry's lock
  Inbox<Span, &Span::pending_next> inbox;
  Mutex lock{Rank::heap};

  void init(uint32_t number) {
    id = number;
    visits = 0;
    inside = false;
    parked = false;
  }

  void slow_path() {
    const LockGuard guard(lock);
    inside = true;
    visits = visits + 1;
    inside = false;
  }
};

// The names are those of heap/registry.cc.
class Registry {
 public:
  Heap* take_heap() { return make_heap(); }  // no heap is parked when one is taken

  void park_heap(Heap& heap) {
    const LockGuard heap_guard(heap.lock);
    const LockGuard guard(lock_);
    heap.parked = true;
  }

  Heap* fallback_heap() {
    Heap* heap = late_.load(kAcquire);
    if (heap != nullptr) return heap;
    const LockGuard guard(lock_);
    if (!mutated("fallback_heap does not look again under the lock")) {
      heap = late_.load(kRelaxed);
      if (heap != nullptr) return heap;
    }
    heap = make_heap();
    late_.store(heap, kRelease);
    return heap;
  }

  Heap* heap_by_id(uint32_t id) { return heaps_[id].load(kAcquire); }
  uint32_t heap_count() { return made_.load(kAcquire); }

  void lock_heaps() {
    if (mutated("fork takes the registry first")) lock_.lock_for_fork();
    uint32_t locked = 0;
    while (true) {
      const uint32_t count = heap_count();
      for (; locked < count; locked++) heap_by_id(locked)->lock.lock_for_fork();
      if (!mutated("fork takes the registry first")) lock_.lock_for_fork();
      numbers_.lock_for_fork();
      if (mutated("fork takes the registry first")) return;
      if (locked == heap_count() || mutated("fork does not count again")) return;
      numbers_.unlock_for_fork();
      lock_.unlock_for_fork();
    }
  }

  void unlock_heaps() {
    const uint32_t count = heap_count();
    numbers_.unlock_for_fork();
    lock_.unlock_for_fork();
    for (uint32_t id = count; id-- > 0;) heap_by_id(id)->lock.unlock_for_fork();
  }

 private:
  Heap* make_heap() {
    const LockGuard guard(numbers_);
    const uint32_t id = made_.load(kRelaxed);
    expect(id < kMaxHeaps, "more heaps than threads want");
    rooms_[id].init(id);
    if (mutated("a heap is counted before it is there")) made_.store(id + 1, kRelease);
    heaps_[id].store(&rooms_[id], kRelease);
    made_.store(id + 1, kRelease);
    return &rooms_[id];
  }

  Heap rooms_[kMaxHeaps];
  Atomic<Heap*> heaps_[kMaxHeaps];
  Atomic<uint32_t> made_{0};
  Atomic<Heap*> late_{nullptr};
  Mutex lock_{Rank::registry};
  Mutex numbers_{Rank::numbers};
};

class Making : public rl::test_suite<Making, 4> {
 public:
  void thread(unsigned index) {
    switch (index) {
      case 0:
        live_and_end();
        break;
      case 1:
        free_what_is_given();
        late_[0] = use_late_heap();
        break;
      case 2:
        clean();
        late_[1] = use_late_heap();
        break;
      default:
        fork();
    }
  }

  void after() {
    expect(late_[0] == late_[1], "there are two fallback heaps");
    expect(registry_.heap_count() == 2, "not as many heaps as were wanted");
  }

 private:
  void live_and_end() {
    Heap* mine = registry_.take_heap();
    span_.remote.open(mine->id, 0, 0);
    given_.store(&span_, kRelease);
    mine->slow_path();
    registry_.park_heap(*mine);
  }

  void free_what_is_given() {
    Span* span = given_.load(kAcquire);
    if (span == nullptr) return;
    const auto pushed = span->remote.push(*span, &span->block);
    Heap* heap = registry_.heap_by_id(pushed.owner);
    expect(heap != nullptr && heap->id == pushed.owner, "a span's heap is not known");
    heap->inbox.push(span);
  }

  Heap* use_late_heap() {
    Heap* heap = registry_.fallback_heap();
    heap->slow_path();
    return heap;
  }

  // The loop of clean_heaps.
  void clean() {
    const uint32_t count = registry_.heap_count();
    for (uint32_t id = 0; id < count; id++) {
      Heap* heap = registry_.heap_by_id(id);
      expect(heap != nullptr && heap->id == id, "a counted heap is not complete");
      heap->slow_path();
    }
  }

  void fork() {
    registry_.lock_heaps();
    const uint32_t count = registry_.heap_count();
    for (uint32_t id = 0; id < count; id++) {
      Heap* heap = registry_.heap_by_id(id);
      expect(!heap->inside && heap->visits <= 3, "fork met a heap inside a slow path");
    }
    expect(registry_.heap_count() == count, "a heap was made while fork held the locks");
    registry_.unlock_heaps();
  }

  Registry registry_;
  Span span_;
  Atomic<Span*> given_{nullptr};
  Heap* late_[2] = {};
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Making>("making and forking", Random{1'000'000}),
};

const std::vector<Mutation> kMutations = {
    {"a heap is counted before it is there"},
    {"a heap is counted without releasing it", "registry_model.cc", "::make_heap", kRelease,
     kRelaxed},
    {"the count is read without acquiring", "registry_model.cc", "::heap_count", kAcquire,
     kRelaxed},
    {"the fallback heap is published without releasing it", "registry_model.cc", "::fallback_heap",
     kRelease, kRelaxed},
    {"the fallback heap is read without acquiring", "registry_model.cc", "::fallback_heap",
     kAcquire, kRelaxed},
    {"fallback_heap does not look again under the lock"},
    {"fork takes the registry first"},
    {"fork does not count again"},
};

}  // namespace near::model

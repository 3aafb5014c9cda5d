// A thread's memory: for each class a stack of the slabs that it is host of, and the lists of its
// coalescing arenas. [Podolsky13 "Approach"]
//
// Invariant: a slab is on its host's stack <=> it has private blocks. When the host takes the last
// private block, it moves the wayward blocks over or gives the slab up before it hands that block
// out: so no other thread can complete the slab meanwhile.
// A heap outlives its thread: it is parked, and the next thread takes it whole. So a pointer to a
// heap never dangles, and a thread's exit cannot race with a free.
// Thread-safety: the heap's thread only; a parked heap belongs to the thread that takes it out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/list.h"
#include "designs/nalloc/coalescing.h"
#include "designs/nalloc/slab.h"

namespace near::design::nalloc {

// Counts of events. The owner of the heap writes them; any thread reads them.
struct Counts {
  Atomic<uint64_t> slabs{0};     // taken as clean pages
  Atomic<uint64_t> popalls{0};   // wayward stacks with blocks that were emptied
  Atomic<uint64_t> moved{0};     // blocks that were moved from them
  Atomic<uint64_t> given_up{0};  // slabs without private blocks that left the stack
  Atomic<uint64_t> regained{0};  // given-up slabs whose host freed a block in them
  Atomic<uint64_t> stolen{0};    // slabs that this thread completed and kept
  Atomic<uint64_t> cleaned{0};   // slabs that became clean pages
};

inline void count(Atomic<uint64_t>& counter, uint64_t more = 1) {
  // relaxed: one thread writes, others read a statistic
  counter.store(counter.load(kRelaxed) + more, kRelaxed);
}

class alignas(64) Heap {
 public:
  const Kind kind = Kind::none;  // first, as in every page: this page is no slab

  constexpr Heap() = default;
  explicit Heap(const FreshPages& fresh) : fresh_(fresh) {}

  // A block of the class; null if memory is refused.
  NEAR_INLINE void* take(unsigned size_class) {
    Slab* slab = stacks_[size_class].front();
    if (unlikely(slab == nullptr)) return take_from_new(size_class);
    void* block = slab->pop();
    if (block == nullptr) __builtin_unreachable();
    return likely(--slab->free > 0) ? block : exhausted(slab, block);
  }

  // Takes back a block of a slab of this host. Returns false and does nothing if it is free.
  NEAR_INLINE bool put(Slab* slab, void* block) {
    if (unlikely(!slab->push(block))) return false;
    if (unlikely(slab->free == 1 || slab->is_whole())) filed_anew(slab);
    return true;
  }

  // No other thread has the slab: it becomes one of this heap, or a clean page.
  NEAR_COLD void steal(Slab* slab);

  // Moves the wayward blocks of the slabs on the stacks to them; slabs without a live block become
  // clean pages.
  void collect();

  Coalescing& coalescing() { return coalescing_; }
  FreshPages& fresh() { return fresh_; }
  const Counts& counts() const { return counts_; }
  // False if the slabs violate the invariants of slab.h.
  bool check() const;

  Heap* registered = nullptr;  // the heap made before this one
  Heap* parked = nullptr;      // the next heap that `collect_parked` holds

 private:
  NEAR_COLD void* take_from_new(unsigned size_class);
  NEAR_NOINLINE __attribute__((returns_nonnull)) void* exhausted(Slab* slab, void* block);
  NEAR_NOINLINE void filed_anew(Slab* slab);
  void clean(Slab* slab);
  void add(Slab* slab);
  void remove(Slab* slab);

  uint32_t held_[kClasses] = {};  // slabs on the stack
  List<Slab> stacks_[kClasses];
  FreshPages fresh_;
  Counts counts_;
  Coalescing coalescing_;
};

// The heap of threads that have none. It never has a slab.
extern Heap no_heap NEAR_HIDDEN;

// A block of the class for a thread that has no heap.
void* take_without_heap(unsigned size_class);

// Total size of the blocks, free or not, of slabs that are not clean pages.
extern Atomic<size_t> bytes_in_slabs NEAR_HIDDEN;

// The calling thread's heap; `no_heap` before it has one, and after it ended.
extern __thread Heap* current NEAR_TLS_INITIAL_EXEC NEAR_HIDDEN;

// Frees a block of a slab that has another host; takes the slab over if that completes it.
NEAR_NOINLINE void push_wayward(Slab* slab, void* block);

NEAR_COLD void free_twice(void* block);

}  // namespace near::design::nalloc

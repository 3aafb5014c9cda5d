// What a thread has: for each class a stack of slabs that it is host of, and the lists of its
// coalescing arenas. [Podolsky13 "Approach"]
//
// Invariant: a slab is on its host's stack <=> it has private blocks. The host that takes the last
// one moves the wayward blocks over, or forgets the slab, while it still has that block in hand:
// so nobody can complete the slab while the host looks at it.
// A heap outlives its thread: it is parked, and the next thread takes it whole. So what points to
// a heap never dangles, and there is nothing that an exit could race with.
// Thread-safety: its thread; while it is parked nobody, but who took it from the parked ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/list.h"
#include "designs/nalloc/coalescing.h"
#include "designs/nalloc/slab.h"

namespace near::nalloc {

// Events. The owner of the heap counts; anybody reads.
struct Counts {
  Atomic<uint64_t> slabs{0};     // taken as clean pages
  Atomic<uint64_t> popalls{0};   // of wayward stacks that had blocks
  Atomic<uint64_t> moved{0};     // blocks that came that way
  Atomic<uint64_t> given_up{0};  // slabs forgotten
  Atomic<uint64_t> regained{0};  // of them, seen again by a free of their host
  Atomic<uint64_t> stolen{0};    // slabs whose last block this thread brought, and kept
  Atomic<uint64_t> cleaned{0};   // slabs that became clean pages
};

inline void count(Atomic<uint64_t>& counter, uint64_t more = 1) {
  // relaxed: one thread writes, others read a statistic
  counter.store(counter.load(kRelaxed) + more, kRelaxed);
}

class alignas(64) Heap {
 public:
  const Kind kind = Kind::none;  // first, as in every page: this one is no slab

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

  // Takes a block of a slab whose host this is back. False, and nothing is done, if it is free.
  NEAR_INLINE bool put(Slab* slab, void* block) {
    if (unlikely(!slab->push(block))) return false;
    if (unlikely(slab->free == 1 || slab->is_whole())) filed_anew(slab);
    return true;
  }

  // The slab is the caller's alone: it becomes one of this heap, or clean.
  NEAR_COLD void steal(Slab* slab);

  // Finds the wayward blocks of the slabs on its stacks; slabs without a live block become clean.
  void collect();

  Coalescing& coalescing() { return coalescing_; }
  FreshPages& fresh() { return fresh_; }
  const Counts& counts() const { return counts_; }
  // False if the slabs contradict what slab.h says of them.
  bool check() const;

  Heap* registered = nullptr;  // the heap made before this one
  Heap* parked = nullptr;      // the next one that `collect_parked` has in hand

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

// The heap of threads that have none. It has no slab, and gets none.
extern Heap no_heap NEAR_HIDDEN;

// A block of the class for a thread that has no heap.
void* take_without_heap(unsigned size_class);

// In blocks, free or not, of slabs that are not clean pages.
extern Atomic<size_t> bytes_in_slabs NEAR_HIDDEN;

// The calling thread's; `no_heap` before it has one, and after it ended.
extern __thread Heap* current NEAR_TLS_INITIAL_EXEC NEAR_HIDDEN;

// Frees a block of a slab that the caller is not host of; takes the slab if that completes it.
NEAR_NOINLINE void push_wayward(Slab* slab, void* block);

NEAR_COLD void free_twice(void* block);

}  // namespace near::nalloc

// A processor's heap: it lists the pages that it owns by class. kheap has one for all processors.
// [Boritz §2 "Per-processor heap"]
//
// Invariant: every page here has `heap` == index; it is in `with_room` if it has a whole free
// block, in `head_only` if only its head slot is free, else in `full`; with the switch `free=walk`
// it is always in `with_room`. No page here is wholly free.
// in_use <= owned.
// Thread-safety: any thread that holds `lock()`. Heaps share no cache line.
#pragma once

#include "base/list.h"
#include "designs/a2alloc/page.h"
#include "designs/shared/ranks.h"

namespace near::design::a2alloc {

class alignas(64) Heap {
 public:
  struct Totals {
    size_t in_use;  // bytes
    size_t walked;  // pagerefs passed over
    size_t given;   // pages that went to the shared heap
    size_t got;     // pages that came from it
  };

  constexpr Heap() = default;
  void start(int32_t index) { index_ = index; }

  // A block of the class for `size` bytes; null if memory is refused.
  void* take(unsigned size_class, size_t size);

  // Takes back a block of `pageref`, a page of this heap.
  Freed put(Pageref* pageref, void* block);

  // The pageref of a page of the class, found by walking; null if the heap has none.
  Pageref* find(const char* page, unsigned size_class);

  Totals totals() const { return totals_; }
  Mutex& lock() { return lock_; }

 private:
  Pageref* with_room_for(unsigned size_class, size_t size);
  Pageref* new_page(unsigned size_class);
  List<Pageref>& list_of(const Pageref& pageref);
  void add(Pageref* pageref);
  void remove(Pageref* pageref, List<Pageref>& list);
  bool is_too_empty() const;
  Pageref* walk(const List<Pageref>& list, const char* page);

  Mutex lock_{design::kUpperRank};
  int32_t index_ = 0;
  List<Pageref> with_room_[kClasses];
  List<Pageref> head_only_[kClasses];
  List<Pageref> full_[kClasses];
  size_t owned_ = 0;  // bytes of its pages' blocks
  Totals totals_{};
};

inline constexpr unsigned kMaxHeaps = 1024;
extern Heap heaps[kMaxHeaps];

}  // namespace near::design::a2alloc

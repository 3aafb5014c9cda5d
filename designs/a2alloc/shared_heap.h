// Hoard's global heap, for the switch `emptiness`: partly used pages that their heap was too empty
// to keep. A heap takes one of them before it takes an empty page. [Boritz §3; Berger00 §3]
// Invariant: every page here has `heap` == kIndex, has room, and is not wholly free.
// Thread-safety: any thread that holds `lock()`; a heap's lock may be held when it is taken.
#pragma once

#include "base/list.h"
#include "designs/a2alloc/page.h"
#include "designs/shared/ranks.h"

namespace near::design::a2alloc {

class alignas(64) SharedHeap {
 public:
  static constexpr int32_t kIndex = 0x7fffffff;

  void add(Pageref* pageref);
  // Removes a page of the class and returns it; null if there is none.
  Pageref* take(unsigned size_class);
  // Like Heap::put.
  Freed put(Pageref* pageref, void* block);

  size_t in_use() const { return in_use_; }  // bytes
  Mutex& lock() { return lock_; }

 private:
  Mutex lock_{design::kMiddleRank};
  List<Pageref> pages_[kClasses];
  size_t in_use_ = 0;
};

extern SharedHeap shared_heap;

}  // namespace near::design::a2alloc

// Hoard's global heap, for the switch `emptiness`: pages that their heap was too empty to keep, in
// use in part. Any heap takes one before it takes an empty page. [Boritz §3; Berger00 §3]
// Invariant: every page here has `heap` == kIndex, has room, and is not wholly free.
// Thread-safety: any thread, under its lock, which is taken with a heap's held.
#pragma once

#include "base/list.h"
#include "designs/a2alloc/page.h"
#include "designs/shared/ranks.h"

namespace near::a2alloc {

class alignas(64) SharedHeap {
 public:
  static constexpr int32_t kIndex = 0x7fffffff;

  void add(Pageref* pageref);
  // A page of the class, no longer here; null if there is none.
  Pageref* take(unsigned size_class);
  // As Heap::put.
  Freed put(Pageref* pageref, void* block);

  size_t in_use() const { return in_use_; }  // bytes
  Mutex& lock() { return lock_; }

 private:
  Mutex lock_{design::kMiddleRank};
  List<Pageref> pages_[kClasses];
  size_t in_use_ = 0;
};

extern SharedHeap shared_heap;

}  // namespace near::a2alloc

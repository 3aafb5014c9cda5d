// The pages that belong to no heap: pagerefs with an empty page, last freed first, and pagerefs
// that have had no page yet. Any class and any thread takes them. [Boritz §2]
// Invariant: a pageref is on one list here, or in a heap.
// Thread-safety: any thread; guarded by `lock_`.
#pragma once

#include "designs/a2alloc/page.h"
#include "designs/shared/arena.h"
#include "designs/shared/ranks.h"

namespace near::design::a2alloc {

// The arena of all memory; the report calls it mem_sbrk and limits it.
extern design::Arena arena;

class alignas(64) FreeRefs {
 public:
  struct Totals {
    size_t fresh;   // pages taken from the arena
    size_t reused;  // pages taken from here
  };

  // A pageref with a page of arbitrary contents; null if memory is refused.
  Pageref* take();
  void put(Pageref* pageref);

  // Gives the memory of the empty pages back to the system. True if there was any.
  bool trim();
  Totals totals();

  Mutex& lock() { return lock_; }

 private:
  Pageref* take_unused();
  Pageref* fresh();

  Mutex lock_{design::kInnerRank};
  Pageref* reusable_ = nullptr;  // with a page
  Pageref* purged_ = nullptr;    // with a page whose memory was given back
  Pageref* unused_ = nullptr;    // without a page
  Totals totals_{};
};

extern FreeRefs free_refs;

}  // namespace near::design::a2alloc

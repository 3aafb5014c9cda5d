// Large blocks: runs of pages, from one list in the order of addresses, first fit, the tail given;
// neighbours are joined when they are freed. Its lock is apart from those of small blocks, so that
// a large allocation delays only another one. [Boritz §2 "Large Allocations"]
//
// A run starts with a header {-1, pages}; the block begins 16 bytes later. For larger alignments it
// begins with a page, and the header stands at the start of the page before: in a2alloc, whose
// pages of small blocks start with something else, an address that starts a page is a large block.
// Invariant: runs on the list neither overlap nor touch.
// Who may touch it: any thread.
#pragma once

#include "designs/a2alloc/page.h"
#include "designs/shared/ranks.h"

namespace near::a2alloc {

class alignas(64) LargeList {
 public:
  struct Totals {
    size_t blocks;
    size_t in_use;  // bytes
    size_t walked;  // runs passed over
  };

  // Null if memory is refused. `alignment`: a power of two.
  void* take(size_t size, size_t alignment);
  // Takes a live block back. False if it is none.
  bool put(void* block);

  // The bytes at a live large block, or 0 if it is none.
  size_t usable(const void* block) const;

  bool trim();
  Totals totals();
  Mutex& lock() { return lock_; }

 private:
  struct Run {
    Run* next;
    size_t pages;
    char* end() { return reinterpret_cast<char*>(this) + pages * kPage; }
  };

  char* take_pages(size_t pages);
  void put_pages(char* start, size_t pages);

  Mutex lock_{design::kInnerRank};
  Run* first_ = nullptr;
  Totals totals_{};
};

extern LargeList large_list;

}  // namespace near::a2alloc

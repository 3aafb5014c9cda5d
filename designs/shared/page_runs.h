// Large blocks: runs of pages of 4 KiB, in address order. `take` takes the tail of the first run
// that fits; `put` joins a run with its free neighbours. One lock guards all runs; only large
// blocks wait for it. [Boritz §2 "Large Allocations"]
//
// A run starts with a header {kMark, pages}; the block begins 16 bytes later. For larger alignments
// the block begins at a page, and the header {kAlignedMark, pages} is at the start of the page
// before. So in designs whose pages start with something else, an address at the start of a page is
// a large block. If the two marks were equal, a page inside a block would look like a block.
// Invariant: a page of the arena is in one live run, or in one free one.
// Thread-safety: any thread; guarded by `lock_`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "designs/shared/arena.h"
#include "designs/shared/free_runs.h"
#include "designs/shared/ranks.h"

namespace near::design {

class alignas(64) PageRuns {
 public:
  static constexpr int32_t kMark = -1;
  static constexpr int32_t kAlignedMark = -2;

  struct Totals {
    size_t blocks;
    size_t in_use;  // bytes
    size_t walked;  // free runs looked at
  };

  // The runs come from `arena`, whose takes are multiples of a page.
  constexpr explicit PageRuns(Arena& arena) : arena_(arena) {}

  // A block; null if memory is refused. `alignment`: a power of two.
  void* take(size_t size, size_t alignment) {
    bool fresh = false;
    return take(size, alignment, fresh);
  }
  // A block whose bytes are all zero; never-used memory is not cleared again.
  void* take_zeroed(size_t size, size_t alignment);
  // Takes a live block back. False if the pointer is none.
  bool put(void* block);

  // The bytes at a live large block, or 0 if it is none.
  size_t usable(const void* block) const;

  // Gives the memory of free runs back to the system. True if there was any.
  bool trim();
  Totals totals();
  Mutex& lock() { return lock_; }

 private:
  struct Header {
    Atomic<int32_t> mark;
    uint32_t pages;  // from the header on
    size_t before;   // the pages before the header's
  };
  static_assert(sizeof(Header) == 16);

  Header* header_of(const void* block) const;
  static bool is_live(const Header& header, const void* block);
  // `fresh` becomes true if the memory has never been used.
  void* take(size_t size, size_t alignment, bool& fresh);
  char* take_pages(size_t pages, bool& fresh);

  Arena& arena_;
  Mutex lock_{design::kInnerRank};
  FreeRuns free_;
  size_t blocks_ = 0;
  size_t in_use_ = 0;
};

}  // namespace near::design

// Large blocks: runs of pages of 4 KiB, in the order of addresses, first fit, the tail given;
// neighbours are joined when they are freed. One lock, which nothing else waits for.
// [Boritz §2 "Large Allocations"]
//
// A run starts with a header {kMark, pages}; the block begins 16 bytes later. For larger alignments
// it begins with a page, and the header {kAlignedMark, pages} stands at the start of the page
// before: so in designs whose pages start with something else, an address that starts a page is a
// large block. The two marks differ, or a page inside of a block would pass for one.
// Invariant: a page of the arena is in one live run, or in one free one.
// Thread-safety: any thread.
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

  // Null if memory is refused. `alignment`: a power of two.
  void* take(size_t size, size_t alignment) {
    bool fresh = false;
    return take(size, alignment, fresh);
  }
  // The same, and all of it is zero, which costs nothing where nobody has had the memory.
  void* take_zeroed(size_t size, size_t alignment);
  // Takes a live block back. False if it is none.
  bool put(void* block);

  // The bytes at a live large block, or 0 if it is none.
  size_t usable(const void* block) const;

  // Gives the memory of free runs back. True if there was any.
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
  // `fresh` becomes true if nobody has had the memory.
  void* take(size_t size, size_t alignment, bool& fresh);
  char* take_pages(size_t pages, bool& fresh);

  Arena& arena_;
  Mutex lock_{design::kInnerRank};
  FreeRuns free_;
  size_t blocks_ = 0;
  size_t in_use_ = 0;
};

}  // namespace near::design

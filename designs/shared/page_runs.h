// Large blocks: runs of pages of 4 KiB, from one list in the order of addresses, first fit, the
// tail given; neighbours are joined when they are freed. One lock, which nothing else waits for.
// [Boritz §2 "Large Allocations"]
//
// A run starts with a header {kMark, pages}; the block begins 16 bytes later. For larger alignments
// it begins with a page, and the header {kAlignedMark, pages} stands at the start of the page
// before: so in designs whose pages start with something else, an address that starts a page is a
// large block. The two marks differ, or a page inside of a block would pass for one.
// Invariant: runs on the list neither overlap nor touch.
// Who may touch it: any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "designs/shared/arena.h"
#include "designs/shared/ranks.h"

namespace near::design {

class alignas(64) PageRuns {
 public:
  static constexpr int32_t kMark = -1;
  static constexpr int32_t kAlignedMark = -2;

  struct Totals {
    size_t blocks;
    size_t in_use;  // bytes
    size_t walked;  // runs passed over
  };

  // The runs come from `arena`, whose takes are multiples of a page.
  constexpr explicit PageRuns(Arena& arena) : arena_(arena) {}

  // Null if memory is refused. `alignment`: a power of two. `zero`: becomes true if nobody has had
  // the block's memory, so all of it is zero.
  void* take(size_t size, size_t alignment, bool* zero = nullptr);
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

  struct Run {
    Run* next;
    size_t pages;
    bool trimmed;  // has nothing to give back
    char* end();
  };

  Header* header_of(const void* block) const;
  static bool is_live(const Header& header, const void* block);
  char* take_pages(size_t pages, bool* zero);
  void put_pages(char* start, size_t pages);

  Arena& arena_;
  Mutex lock_{design::kInnerRank};
  Run* first_ = nullptr;
  Totals totals_{};
};

}  // namespace near::design

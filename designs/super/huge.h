// Huge blocks, beyond half a chunk: runs of chunks, each run a power of two of them, so that a
// freed run can be reused. The chunk table describes the runs. [Kuszmaul15 §2]
//
// A block begins with a run, or, for alignments beyond a chunk, with a later chunk of it.
// Invariant: the entry of a run's first chunk is {kHuge, chunks in use}; the run has that number
// rounded up to a power of two. The entry of a free run is {kFreeHuge, next run + 1}. The chunk
// where a block begins, if it is not the first, has {kInHuge, chunks before}.
// Thread-safety: any thread; the lists are guarded by the lock.
#pragma once

#include "designs/shared/ranks.h"
#include "designs/super/chunk_table.h"

namespace near::design::super {

class Huge {
 public:
  struct Totals {
    size_t blocks;
    size_t in_use;  // bytes
    size_t taken;   // runs never used before
    size_t reused;
  };

  // A block; null if memory is refused.
  void* take(size_t size, size_t alignment);
  // A block of zeroes; memory is cleared only if a program used it and it was kept.
  void* take_zeroed(size_t size);
  // Takes a live block back. Returns false and does nothing if the pointer is none.
  bool put(void* block);

  // The bytes at a live huge block; 0 if the pointer is none.
  size_t usable(const void* block) const;
  // Grows the block in place; false if its run is too short.
  bool grow(void* block, size_t size);

  bool trim();
  Totals totals();
  Mutex& lock() { return lock_; }

 private:
  void* take(size_t size, size_t alignment, bool& fresh);
  size_t take_run(unsigned log2, bool& fresh);

  static constexpr unsigned kLogs = 24;
  Mutex lock_{design::kInnerRank};
  size_t free_[kLogs] = {};  // first free run of 2^i chunks, plus 1
  Totals totals_{};
};

extern Huge huge;

}  // namespace near::design::super

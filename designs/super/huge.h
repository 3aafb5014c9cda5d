// Huge blocks, beyond half a chunk: runs of chunks, each run a power of two of them, so that what
// is freed fits the next. What is known of a run stands in the chunk table. [Kuszmaul15 §2]
//
// A block begins with a run, or, for alignments beyond a chunk, with a later chunk of it.
// Invariant: the entry of a run's first chunk is {kHuge, chunks in use}, with as many chunks as the
// next power of two; of a free run {kFreeHuge, next run + 1}; of the chunk that a block begins
// with, if it is not the first, {kInHuge, chunks before}.
// Thread-safety: any thread; the lists are guarded by the lock.
#pragma once

#include "designs/shared/ranks.h"
#include "designs/super/chunk_table.h"

namespace near::super {

class Huge {
 public:
  struct Totals {
    size_t blocks;
    size_t in_use;  // bytes
    size_t taken;   // runs never used before
    size_t reused;
  };

  // Null if memory is refused.
  void* take(size_t size, size_t alignment);
  // The same, of zeroes, which are written only where a program had the memory and it was kept.
  void* take_zeroed(size_t size);
  // Takes a live block back. False, and nothing is done, if it is none.
  bool put(void* block);

  // The bytes at a live huge block; 0 if it is none.
  size_t usable(const void* block) const;
  // Makes it longer where it is; false if its run is too short.
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

}  // namespace near::super

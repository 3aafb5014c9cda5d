// Whether large blocks of a length get huge pages: only if the program writes such blocks wholly.
//
// A huge page makes 2 MiB resident at the first write to a byte. Spans of small blocks are written
// soon, but a large block may be a buffer or a table with few written pages. So blocks of a length
// get small pages until some of the program's own blocks were seen to be dense.
//
// Each length has a record. The record watches a block at a time: a run of clean memory with small
// pages, whose unwritten pages read as zero. Some of the block's pages are read when the next
// block is watched, and when the block is freed. A dense block adds a point. At its free, a sparse
// block takes three back, and a block with a few unwritten pages takes a point back. A length
// without a record is taken to be as dense as the next shorter known length, down to the half.
// Under a record for huge pages every fifteenth block still gets small pages, to be watched. While
// the answers stay the same, fewer and fewer blocks are watched.
// The kernel reads the pages (platform/futex.h), because the program may write, protect or free the
// block at the same time.
// Thread-safety: any thread; each answer is a hint. No lock is held during a read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "span/layout.h"

namespace near {

class Densities {
 public:
  // True if the program is expected to write all of a large block of so many slices.
  bool expects_dense(uint32_t slices);

  // Values of Span::watched; larger values are numbers of records. A region writes kMayBe for a
  // clean run with small pages.
  static constexpr uint16_t kNot = 0;
  static constexpr uint16_t kMayBe = 1;

  // Called for the run of a new large block, before the program has the block. `full`: the block
  // ends in the last pages of the run, so that the program may write all of the run.
  void begin(Span& run, bool full) {
    if (run.watched != kMayBe) return;
    run.watched = kNot;
    if (full) consider(run);
  }

  // Called before the run of a large block is freed or made shorter.
  void end(Span& run) {
    if (run.watched > kMayBe) look_last(run);
  }

 private:
  static constexpr unsigned kRecords = 4 * 32;  // four for each doubling
  static constexpr int kSure = 3;

  // relaxed everywhere: each value is a hint of its own.
  struct Record {
    Atomic<uintptr_t> watched{0};  // address of the run that is watched, or 0
    Atomic<int> score{0};          // from -kSure, sparse, to kSure, dense
    Atomic<uint32_t> asked{0};     // blocks while the record said dense
    Atomic<uint32_t> passed{0};    // blocks since the last watched block
    Atomic<uint32_t> rest{0};      // so many blocks pass before the next watched block
  };

  enum class Look : uint8_t { early, last };  // `last`: at the free of the block

  static unsigned number_of(uint32_t slices);
  static size_t pages_of(unsigned number);
  static int judge(uintptr_t start, size_t pages);
  void consider(Span& run);
  void look_last(Span& run);
  void record(unsigned number, uintptr_t start, Look look);
  int score_of(unsigned number) const;

  Record records_[kRecords];
};

extern NEAR_HIDDEN Densities densities;

}  // namespace near

// Finds the lowest run of free slices across chunks, in time logarithmic in the size of the region.
//
// A binary tree over the chunks of a region: a leaf is a chunk, and an inner node holds the Run of
// the chunks below it. Inner nodes are stored in the table of chunks: the node that joins two
// neighbouring subtrees is in the last entry of the left one. So the tree has no fixed size: its
// height follows the highest chunk, and low chunks use only low entries.
// Spans come and go many times in a few chunks before a run across chunks is needed. So the nodes
// above the chunks that changed last are updated only in `find`, or when too many chunks changed.
// Invariant: every inner node is the sum of its two halves, except above `changed_`. The table is
// readable up to the next power of two above the highest chunk; entries without a chunk are zero.
// Thread-safety: guarded by the node's lock.
#pragma once

#include <cstdint>

#include "node/chunk.h"

namespace near {

class RunTree {
 public:
  static constexpr uint64_t kNowhere = ~uint64_t{0};

  void init(Chunk* chunks) {
    chunks_ = chunks;
    changes_ = 0;
  }

  // Chunks below `end` exist from now on; end > 0.
  void grow_to(uint32_t end);

  // Called after the free runs at the ends of a chunk changed.
  void update(uint32_t chunk) {
    for (unsigned i = 0; i < changes_; i++) {
      if (changed_[i] == chunk) return;
    }
    if (changes_ == kMostChanges) settle();
    changed_[changes_++] = chunk;
  }

  // The first slice of the lowest run of `slices`; kNowhere if there is none.
  uint64_t find(uint32_t slices) const;

  // True if every inner node that should be the sum of its halves is.
  bool check() const;

 private:
  static constexpr unsigned kMostChanges = 8;

  void settle() const;
  void settle_above(uint32_t chunk) const;
  Chunk& entry(unsigned level, uint32_t index) const {
    return chunks_[(size_t{index} << level) + (size_t{1} << (level - 1)) - 1];
  }
  Run run_of(unsigned level, uint32_t index) const;
  Run sum_of_halves(unsigned level, uint32_t index) const;

  Chunk* chunks_ = nullptr;
  uint32_t end_ = 0;
  unsigned height_ = 0;
  // All zero before init: it costs a process no memory.
  mutable unsigned changes_ = 0;
  mutable uint32_t changed_[kMostChanges] = {};  // the first `changes_`; different ones
};

}  // namespace near

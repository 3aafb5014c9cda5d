// The lowest run of free slices that reaches over chunks, in a time that grows with the logarithm
// of the heap.
//
// A binary tree over the chunks of a region: a leaf is a chunk, and an inner node knows the Run of
// the chunks below it. Inner nodes lie in the table of chunks itself, in order: the node that joins
// two neighbouring subtrees is in the last entry of the left one. So the tree has no size: its
// height follows the highest chunk, and a low chunk's nodes are low entries.
// Spans come and go many times in one chunk before a run over chunks is looked for, so the nodes
// above the chunk that changed last are not brought up to date before another chunk changes.
// Invariant: every inner node is the sum of its two halves, except above `changed_`. The table
// is readable up to the next power of two above the highest chunk, and zero where there is none.
// Thread-safety: guarded by the node's lock.
#pragma once

#include <cstdint>

#include "node/chunk.h"

namespace near {

class RunTree {
 public:
  static constexpr uint64_t kNowhere = ~uint64_t{0};

  void init(Chunk* chunks) { chunks_ = chunks; }

  // Chunks below `end` exist from now on; end > 0.
  void grow_to(uint32_t end);

  // The free slices of a chunk changed.
  void update(uint32_t chunk) {
    if (chunk == changed_) return;
    settle();
    changed_ = chunk;
  }

  // The first slice of the lowest run of `slices`; kNowhere if there is none.
  uint64_t find(uint32_t slices) const;

  // True if every inner node is the sum of its halves that should be.
  bool check() const;

 private:
  void settle() const;
  Chunk& entry(unsigned level, uint32_t index) const {
    return chunks_[(size_t{index} << level) + (size_t{1} << (level - 1)) - 1];
  }
  Run run_of(unsigned level, uint32_t index) const;
  Run sum_of_halves(unsigned level, uint32_t index) const;

  Chunk* chunks_ = nullptr;
  uint32_t end_ = 0;
  unsigned height_ = 0;
  mutable uint32_t changed_ = kNoChunk;
};

}  // namespace near

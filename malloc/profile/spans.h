// The slices that small and medium sampled blocks live in.
//
// Such a block must be recognised when it is freed, and an ordinary free may not pay for that. So
// sampled blocks have slices of their own. For the fast path of free they are large blocks, which
// no heap owns; the slow path finds `sampled` in the descriptor.
//
// A slice has cells of one size. There are few sizes of cells, because most programs have few
// sampled blocks of each class, and the first one takes a slice. The cell may be larger than the
// block, of which the program knows nothing: the profiler's table has the block's size.
// Invariant: a slice in open_[node][cells] has a live block, and room for another.
// Thread-safety: the caller holds the profiler's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/atomic.h"
#include "base/bits.h"
#include "node/node.h"
#include "platform/topology.h"
#include "sizes/size_class.h"
#include "span/layout.h"

namespace near::profile {

class SampledSpans {
 public:
  // Returns a cell for a block of the class, from a slice of the shard's node; null if memory is
  // refused.
  // `strict`: no other node's memory will do.
  void* take(Shard& shard, unsigned size_class, bool strict);

  // Gives a live block back, and its slice if that was the last one there.
  void give(Span& span, void* block);

  // Of all slices that have live blocks.
  uint64_t bytes() const { return slices_ * kSliceSize; }

 private:
  // Bytes of cells; each is the size of a class, and a power of two, so a cell is aligned as its
  // block must be. Above 4 KiB they double, so a cell is less than twice its block.
  static constexpr uint32_t kCells[] = {64,       256,       1 * kKiB,  4 * kKiB,
                                        8 * kKiB, 16 * kKiB, kMediumMax};
  static constexpr unsigned cells_for(uint32_t size) {
    unsigned cells = 0;
    while (kCells[cells] < size) cells++;
    return cells;
  }
  // The slice's list.
  Span*& first_like(const Span& span) { return open_[span.node][cells_for(span.shape().size)]; }

  Span* open_slice(Shard& shard, unsigned cells, bool strict);
  void list(Span& span);
  void unlist(Span& span);

  Span* open_[kMaxNodes][std::size(kCells)] = {};
  uint64_t slices_ = 0;
};

// Bytes of the slice's cells that were ever handed out. It grows under the profiler's lock, while
// other threads that have a block of the slice read it without.
inline size_t handed_out(const Span& span) {
  // relaxed: it was above the thread's own block before the thread got that
  return std::atomic_ref(const_cast<size_t&>(span.asked)).load(kRelaxed);
}

// True if one of the slice's cells, live or free, starts at the address.
inline bool is_sampled_block(const Span& span, const void* pointer) {
  const auto offset = static_cast<size_t>(static_cast<const char*>(pointer) - span.start);
  const uint32_t size = span.shape().size;
  return offset % size == 0 && offset < handed_out(span);
}

}  // namespace near::profile

// The slices that small and medium sampled blocks live in.
//
// Such a block must be recognised when it is freed, and an ordinary free may not pay for that. So
// sampled blocks have slices of their own, one size class to a slice. For the fast path of free
// they are large blocks, which no heap owns; the slow path finds `sampled` in the descriptor.
// Invariant: a slice in open_[node][class] has a live block, and room for another.
// Thread-safety: the caller holds the profiler's lock.
#pragma once

#include "base/atomic.h"
#include "node/node.h"
#include "platform/topology.h"
#include "sizes/size_class.h"
#include "span/layout.h"

namespace near::profile {

class SampledSpans {
 public:
  // Returns a block of the class from a slice of the shard's node; null if memory is refused.
  // `strict`: no other node's memory will do.
  void* take(Shard& shard, unsigned size_class, bool strict);

  // Gives a live block back, and its slice if that was the last one there.
  void give(Span& span, void* block);

  // Of all slices that have live blocks.
  uint64_t bytes() const { return slices_ * kSliceSize; }

 private:
  Span* open_slice(Shard& shard, unsigned size_class, bool strict);
  void list(Span& span);
  void unlist(Span& span);

  Span* open_[kMaxNodes][kClasses] = {};
  uint64_t slices_ = 0;
};

// Bytes of the slice's blocks that were ever handed out. It grows under the profiler's lock, while
// other threads that have a block of the slice read it without.
inline size_t handed_out(const Span& span) {
  // relaxed: it was above the thread's own block before the thread got that
  return std::atomic_ref(const_cast<size_t&>(span.asked)).load(kRelaxed);
}

// True if one of the slice's blocks, live or free, starts at the address.
inline bool is_sampled_block(const Span& span, const void* pointer) {
  const auto offset = static_cast<size_t>(static_cast<const char*>(pointer) - span.start);
  const uint32_t size = span.shape().size;
  return offset % size == 0 && offset < handed_out(span);
}

}  // namespace near::profile

#include "inspect/live_blocks.h"

#include "base/bits.h"
#include "heap/registry.h"
#include "node/memory.h"
#include "span/span.h"

namespace near {
namespace {

// Holds the lock of the heap that was asked for last: neighbouring spans often share their owner.
class OwnersLock {
 public:
  OwnersLock() = default;
  ~OwnersLock() { hold(nullptr); }
  OwnersLock(const OwnersLock&) = delete;
  OwnersLock& operator=(const OwnersLock&) = delete;

  void hold(Heap* owner) {
    if (owner == held_) return;
    if (held_ != nullptr) held_->lock.unlock();
    held_ = owner;
    if (held_ != nullptr) held_->lock.lock();
  }

 private:
  Heap* held_ = nullptr;
};

// The free blocks of a span: freed by the owner or by other threads, or never handed out. The
// caller holds the owner's lock.
uint32_t free_in(const Span& span, const Heap& owner) {
  const bool is_counted = span.size_class >= kSmallClasses || !owner.is_hot(span);
  const uint32_t freed = is_counted ? span.frees.freed() : count_free(span, *span.list);
  return freed + span.remote.count();
}

class LiveCount {
 public:
  explicit LiveCount(LiveBlocks& out) : out_(out) {}

  // Called for the mapped chunks of a region, in address order.
  void look_at(const Region& region, uint32_t index, const Chunk& chunk) {
    OwnersLock lock;
    const auto start = reinterpret_cast<uintptr_t>(region.chunk_start(index));
    for (unsigned slice = 0; slice < kChunkSlices;) {
      const uintptr_t at = start + slice * kSliceSize;
      const bool is_free = ((chunk.free | chunk.away | chunk.growing) & uint32_t{1} << slice) != 0;
      const bool is_seen = is_free || (at >= large_start_ && at < large_end_);
      slice +=
          is_seen ? 1 : look_at_span(region.span(size_t{index} * kChunkSlices + slice), at, lock);
    }
  }

 private:
  // Returns the number of slices that are done with.
  uint32_t look_at_span(const Span& span, uintptr_t start, OwnersLock& lock) {
    if (span.kind == SpanKind::large) {
      large_start_ = start;
      large_end_ = start + span.bytes();
      if (span.sampled == Sampled::blocks) out_.classes[span.size_class].live += span.counted;
      return 1;
    }
    Heap* owner = span.owner.load(kRelaxed);  // relaxed: type-stable; read again
    if (span.kind != SpanKind::blocks || owner == nullptr) return 1;
    lock.hold(owner);
    // relaxed: a locked heap gains and loses no span
    if (span.kind != SpanKind::blocks || span.owner.load(kRelaxed) != owner) return 1;
    const uint32_t capacity = span.shape().capacity;
    LiveBlocks::OfClass& sums = out_.classes[span.size_class];
    sums.capacity += capacity;
    sums.live += capacity - min_of(capacity, free_in(span, *owner));
    return span.slices;
  }

  LiveBlocks& out_;
  uintptr_t large_start_ = 0;
  uintptr_t large_end_ = 0;
};

// A span counts freed blocks in magazines, and spare blocks, as live.
void subtract_waiting(LiveBlocks& out) {
  uint64_t waiting[kClasses] = {};
  for (uint32_t id = 0; id < heap_count(); id++) {
    const Heap& heap = *heap_by_id(id);
    if (const Magazines* some = heap.magazines()) some->add_blocks(waiting);
    for (unsigned c = kSmallClasses; c < kClasses; c++) waiting[c] += heap.spares().of(c).count();
  }
  for (unsigned n = 0; n < topology.count; n++) depots[n].add_blocks(waiting);
  for (unsigned c = 0; c < kClasses; c++) {
    out.classes[c].live -= min_of(out.classes[c].live, waiting[c]);
  }
}

}  // namespace

void count_live(LiveBlocks& out) {
  out = {};
  if (is_inside()) return;
  for (unsigned n = 0; n < topology.count; n++) {
    LiveCount count(out);
    nodes[n].for_each_mapped([&](const Region& region, uint32_t index, const Chunk& chunk) {
      count.look_at(region, index, chunk);
    });
  }
  subtract_waiting(out);
}

}  // namespace near

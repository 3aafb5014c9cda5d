#include "profile/spans.h"

#include "node/memory.h"

namespace near::profile {
namespace {

// True if the slice has a block that was never handed out.
bool has_fresh(const Span& span) { return handed_out(span) + span.shape().size <= kSliceSize; }

bool is_full(const Span& span) { return !has_fresh(span) && span.local.is_empty(); }

}  // namespace

void SampledSpans::list(Span& span) {
  Span*& first = first_like(span);
  span.prev = nullptr;
  span.next = first;
  if (first != nullptr) first->prev = &span;
  first = &span;
}

void SampledSpans::unlist(Span& span) {
  (span.prev != nullptr ? span.prev->next : first_like(span)) = span.next;
  if (span.next != nullptr) span.next->prev = span.prev;
}

Span* SampledSpans::open_slice(Shard& shard, unsigned cells, bool strict) {
  bool zero = false;
  const RunRequest run{.slices = 1};
  Span* span = strict ? take_slices_at(shard, run, zero) : take_slices(shard, run, zero);
  if (span == nullptr) return nullptr;
  span->kind = SpanKind::large;
  span->size_class = static_cast<uint8_t>(class_of(kCells[cells]));
  span->sampled = Sampled::blocks;
  span->counted = 0;
  std::atomic_ref(span->asked).store(0, kRelaxed);  // relaxed: no block is handed out yet
  span->local.clear(span->start);
  list(*span);
  slices_++;
  return span;
}

void* SampledSpans::take(Shard& shard, unsigned size_class, bool strict) {
  const unsigned cells = cells_for(class_size(size_class));
  Span* span = open_[shard.node().number()][cells];
  if (span == nullptr) span = open_slice(shard, cells, strict);
  if (span == nullptr) return nullptr;
  Block* block = span->local.pop();
  // A block whose link the program overwrote stays where it is, and so do those behind it.
  if (block == nullptr) span->local.clear(span->start);
  if (block == nullptr && has_fresh(*span)) {
    const size_t before = handed_out(*span);
    block = reinterpret_cast<Block*>(span->start + before);
    // relaxed: see handed_out()
    std::atomic_ref(span->asked).store(before + span->shape().size, kRelaxed);
  }
  if (is_full(*span)) unlist(*span);
  if (block != nullptr) span->counted++;
  return block;
}

void SampledSpans::give(Span& span, void* block) {
  const bool was_full = is_full(span);
  span.counted--;
  if (span.counted == 0) {
    if (!was_full) unlist(span);
    span.sampled = Sampled::none;
    slices_--;
    shard_of(span).give(&span);
    return;
  }
  auto* freed = static_cast<Block*>(block);
  uintptr_t distance;
  if (!span.local.is_first(freed, distance)) span.local.push(freed, distance);
  if (was_full) list(span);
}

}  // namespace near::profile

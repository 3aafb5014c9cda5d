#include "front/large.h"

#include "front/thread.h"
#include "heap/registry.h"
#include "node/density.h"
#include "node/memory.h"
#include "platform/os.h"

namespace near {
namespace {

size_t slices_for(size_t size) { return div_up(size, kSliceSize); }

// False if the unused end of the last slice is much of the run.
bool fills_slices(size_t size) {
  const size_t slices = slices_for(size);
  return is_dense((slices << kSliceShift) - size, slices);
}

RunRequest run_for(size_t size, size_t alignment) {
  const auto slices = static_cast<uint32_t>(slices_for(size));
  const bool dense = fills_slices(size) && densities.expects_dense(slices);
  return {slices, max_of(alignment, kSliceSize), dense};
}

// Bytes from the run's first slice to the block. If all blocks began at slices, their first bytes,
// and those of all their pages, would compete for the same sets of the processor's caches. So a
// block of up to two slices, of which a program may have many, begins at some line of its first
// page, as far as its last page has room. docs/decisions/0021-memory-of-any-size.md
size_t offset_for(const Span& run, size_t size, size_t alignment) {
  constexpr size_t kLine = 64;
  constexpr size_t kMost = 2 * kSliceSize;
  if (alignment > kBlockAlign || size > kMost) return 0;
  const size_t lines = (align_up(size, kPageSize) - size) / kLine;
  const uint64_t slice = reinterpret_cast<uintptr_t>(run.start) >> kSliceShift;
  const uint64_t mixed = slice * 0x9e37'79b9'7f4a'7c15 >> 32;  // [Knuth, TAOCP 3, 6.4]
  return static_cast<size_t>(mixed * (lines + 1) >> 32) * kLine;
}

NEAR_INLINE void* begin_block(Span& run, size_t size, size_t alignment) {
  run.kind = SpanKind::large;
  run.asked = size;
  run.start -= run.offset();
  run.start += offset_for(run, size, alignment);
  return run.start;
}

// Counts blocks that the calling thread took or (negative) freed. Only the sum over all heaps means
// something. The fast paths below know that the thread has a heap: Heap::count_large and its like
// save them 16 of 170 instructions a pair.
void count(int64_t blocks, int64_t slices) {
  current_heap->add(current_heap->large.blocks, static_cast<uint64_t>(blocks));
  current_heap->add(current_heap->large.bytes, static_cast<uint64_t>(slices) << kSliceShift);
}

// The large block that the thread freed last, if it has as many slices and lies where the thread
// runs now; else null. It is not zero.
NEAR_INLINE void* take_freed_last(size_t size, size_t alignment) {
  if (unlikely(!is_at_home())) return nullptr;
  Heap& heap = *current_heap;
  Span* run = heap.take_last_run(slices_for(size));
  if (run == nullptr) return nullptr;
  heap.count_large(*run, 1);
  return begin_block(*run, size, alignment);
}

// True if taking such a span would certainly fail. From kHuge on an attempt may be expensive, so
// this first asks whether the system would refuse.
bool is_hopeless(size_t size, size_t alignment) {
  constexpr size_t kHuge = 64 * kMiB;
  if (slices_for(size) + (alignment >> kSliceShift) > UINT32_MAX / 2) return true;
  return size + alignment >= kHuge && os::refuses(size + alignment);
}

// Makes `span`, which may be null, a large block.
void* make_large(Span* span, size_t size, size_t alignment) {
  if (span == nullptr) return nullptr;
  count(1, span->slices);
  densities.begin(*span, fills_slices(size));
  return begin_block(*span, size, alignment);
}

NEAR_NOINLINE void* allocate_run(size_t size, size_t alignment, bool* zero) {
  start_library();
  if (is_hopeless(size, alignment)) return nullptr;
  bool clean = false;
  Shard& shard = current_shard();
  const RunRequest run = run_for(size, alignment);
  // The shard is of the node on which the thread runs now; its heap may lie on another one.
  const bool may_keep = alignment <= kSliceSize && has_heap() && &current_heap->shard() == &shard;
  Span* span = may_keep ? current_heap->take_run(run.slices) : nullptr;
  if (span == nullptr) span = take_slices(shard, run, clean);
  if (zero != nullptr) *zero = clean;
  return make_large(span, size, alignment);
}

}  // namespace

void* allocate_large(size_t size, size_t alignment, bool* zero) {
  if (unlikely(is_inside())) return nullptr;
  void* last = likely(alignment <= kSliceSize) ? take_freed_last(size, alignment) : nullptr;
  if (last == nullptr) return allocate_run(size, alignment, zero);
  if (zero != nullptr) *zero = false;
  return last;
}

void* allocate_large_at(unsigned node, size_t size, size_t alignment, bool populated) {
  if (unlikely(is_inside()) || is_hopeless(size, alignment)) return nullptr;
  bool clean = false;
  RunRequest run = run_for(size, alignment);
  run.dense = run.dense || populated;
  Span* span = take_slices_at(nodes[node].shard(0), run, clean);
  return make_large(span, size, alignment);
}

void release_large(Span& span) {
  if (unlikely(is_inside())) return;  // the block is not freed
  densities.end(span);
  Heap& heap = *current_heap;
  if (likely(heap.can_keep(span))) {
    heap.count_large(span, -1);
    heap.count_freed_elsewhere(span.node, 1);
    return heap.keep_run(span);
  }
  count(-1, -int64_t{span.slices});
  count_freed(span.node, 1);
  shard_of(span).give(&span);
}

bool resize_large(Span& span, size_t size) {
  const size_t slices = slices_for(span.offset() + size);
  if (unlikely(is_inside())) return false;
  if (slices > span.slices) {
    if (is_hopeless(size, 0)) return false;
    const size_t more = slices - span.slices;
    if (!shard_of(span).extend(&span, static_cast<uint32_t>(more))) return false;
    count(0, static_cast<int64_t>(more));
  } else if (slices < span.slices && size < span.asked) {
    densities.end(span);
    count(0, -static_cast<int64_t>(span.slices - slices));
    shard_of(span).give(&span, static_cast<uint32_t>(slices));
  }
  span.asked = size;
  return true;
}

namespace {

// Whole chunks. A moved block gets a sixteenth more room: the pages stay untouched.
RunRequest chunks_for(size_t size, bool has_moved) {
  const size_t used = align_up(size, kChunkSize);
  const size_t room = has_moved && os::limit() == SIZE_MAX ? size / 16 : 0;
  const auto slices = static_cast<uint32_t>(align_up(size + room, kChunkSize) >> kSliceShift);
  return {slices, kChunkSize, is_dense(used - size, slices)};
}

}  // namespace

void* grow_large(Span& span, size_t size, bool& moved) {
  moved = false;
  if (unlikely(is_inside()) || size < kMiB || is_hopeless(size, kChunkSize)) return nullptr;
  Shard& shard = shard_of(span);
  if (&shard.node() != &current_shard().node()) return nullptr;  // the copy comes home
  const uint32_t before = span.slices;
  densities.end(span);
  Span* to = shard.move(&span, chunks_for(size, shard.is_moved(span)), moved);
  if (to == nullptr) return nullptr;
  to->watched = Densities::kNot;
  count(moved ? 0 : 1, int64_t{to->slices} - (moved ? before : 0));
  return begin_block(*to, size, kChunkSize);
}

namespace {

size_t sum_of_heaps(Atomic<uint64_t> LargeCounts::* counter) {
  const auto value = [&](const Heap& heap) {
    return (heap.large.*counter).load(kRelaxed);  // relaxed: a statistic
  };
  uint64_t sum = value(empty_heap) + value(exited_heap);
  for (uint32_t id = 0; id < heap_count(); id++) sum += value(*heap_by_id(id));
  return sum;
}

}  // namespace

size_t large_blocks() { return sum_of_heaps(&LargeCounts::blocks); }

size_t large_bytes() { return sum_of_heaps(&LargeCounts::bytes); }

}  // namespace near

// The slow paths of malloc and free: they determine why the fast path failed, and do the work.
#include <cerrno>
#include <cstdint>

#include "front/damage.h"
#include "front/emergency.h"
#include "front/front.h"
#include "front/invalid.h"
#include "front/large.h"
#include "front/refuse.h"
#include "front/remote.h"
#include "front/sampled.h"
#include "heap/give_back.h"
#include "heap/registry.h"
#include "node/memory.h"
#include "platform/os.h"
#include "span/span.h"

namespace near {
namespace {

// Serves a thread without a heap of its own: the thread is ending, or could not get one.
NEAR_COLD void* allocate_late(unsigned size_class) {
  start_library();
  Heap* heap = fallback_heap(current_node());
  if (heap == nullptr) return nullptr;
  const LockGuard guard(heap->lock);
  return heap->take_locked(size_class);
}

void* allocate_class(unsigned size_class) {
  if (unlikely(is_inside())) return nullptr;
  if (unlikely(!has_heap()) && !enter_thread()) return allocate_late(size_class);
  rehome_if_moved();
  if (depots[current_heap->node()].part_count() > 0) {
    const unsigned used = current_heap->class_of_small.in_use(size_class);
    if (Block* block = current_heap->take_put_away(used)) {
      if (unlikely(profile::is_running())) count_put_away(used);
      return block;
    }
  }
  void* block = current_heap->refill(size_class);
  report_recorded_damage();
  return block;
}

NEAR_COLD void report_no_block(const void* pointer) {
  const Span* span = enclosing_span(pointer);
  const bool inside = span->kind == SpanKind::blocks || span->kind == SpanKind::inside ||
                      span->kind == SpanKind::large;
  report_invalid(pointer, inside ? "it is not the start of a block"
                                 : "it was freed before, or never allocated");
}

NEAR_INLINE Span* span_in_first_window(const void* pointer) {
  return &reserved_spans[offset_in_reservation(pointer) >> kSliceShift];
}

// The fast path of free for a block in any slice of its span, and for one that may become a spare
// block. False if a test fails.
NEAR_INLINE bool release_local(Span& span, Block* block, uint64_t offset) {
  if (span.owner.load(kRelaxed) != current_heap) return false;  // relaxed: as on the fast path
  if (unlikely(!starts_block(offset, kSizeClasses[span.size_class].exact))) return false;
  if (!span.frees_are_fast()) {
    SpareBlocks::OfClass& spares = current_heap->spares_of(span.size_class);
    if (unlikely(spares.has(block))) return false;
    if (current_heap->may_keep_spare(span, spares)) {
      if (unlikely(!record_freed(&span, block))) return false;
      current_heap->keep_spare(spares, block);
      return true;
    }
  }
  uintptr_t distance;
  if (unlikely(span.list->is_first(block, distance)) || unlikely(!record_freed(&span, block)))
    return false;
  span.list->push(block, distance);
  if (unlikely(span.frees.tick())) reach_count(&span);
  return true;
}

void push_remote(Span& span, SpanBlocks blocks, Block* block, RemoteList<Block>::Seen seen) {
  if (unlikely(!release_remote(span, blocks, block, seen))) report_invalid(block, "double free");
}

void release_block(Span& span, Block* block) {
  if (unlikely(!is_block(span, block))) return report_no_block(block);
  const auto offset = static_cast<uint64_t>(reinterpret_cast<char*>(block) - span.start);
  if (release_local(span, block, offset)) return;
  const bool local = span.owner.load(kRelaxed) == current_heap;  // relaxed: as on the fast path
  if (unlikely(local)) return report_invalid(block, "double free");
  const auto seen = span.remote.look();
  if (unlikely(!seen.is_open())) return report_invalid(block, "double free");
  push_remote(span, SpanBlocks{span.start}, block, seen);
}

// `span` is the span of the slice at `pointer`, whatever its kind.
NEAR_INLINE void release_in_slice(Span* span, void* pointer) {
  if (span->kind == SpanKind::inside) {
    const uint64_t in_slice = reinterpret_cast<uintptr_t>(pointer) % kSliceSize;
    const uint64_t offset = (uint64_t{span->back} << kSliceShift) + in_slice;
    span -= span->back;
    if (release_local(*span, static_cast<Block*>(pointer), offset)) return;
  }
  if (likely(span->kind == SpanKind::blocks))
    return release_block(*span, static_cast<Block*>(pointer));
  if (unlikely(span->kind != SpanKind::large)) return report_no_block(pointer);
  if (unlikely(span->sampled != Sampled::none)) return release_sampled(*span, pointer);
  if (unlikely(pointer != span->start)) return report_no_block(pointer);
  release_large(*span);
}

}  // namespace

void* allocate_slow(size_t size) {
  if (unlikely(profile::is_running())) return allocate_counted(size, size);
  return allocate_uncounted(size);
}

// Serves a request of at most kMediumMax bytes whose bin is empty or damaged.
static void* allocate_from_heap(size_t size, unsigned size_class) {
  // A heap that has magazines often serves from them: this is the short way.
  Magazines* magazines = current_heap->magazines();
  const unsigned used = current_heap->class_of_small.in_use(size_class);
  Block* block = magazines != nullptr ? magazines->take_ready(used) : nullptr;
  if (block == nullptr) block = static_cast<Block*>(allocate_class(size_class));
  if (unlikely(block == nullptr)) return allocate_in_need(size, kSliceSize);
  record_held(block);
  return block;
}

void* allocate_uncounted(size_t size) {
  if (size <= kSmallMax) return allocate_from_heap(size, kClassOfSmall[size]);
  if (likely(size <= kMediumMax)) {
    // A medium class may have blocks in its bin: the fast path does not serve it, because medium
    // blocks are counted when they are handed out.
    const unsigned size_class = class_of_computed(size);
    Heap& heap = *current_heap;
    const unsigned used = heap.class_of_small.in_use(size_class);
    Block* block = heap.spares_of(used).take();
    if (block == nullptr) {
      block = heap.bins[used].pop();
      if (unlikely(block == nullptr)) return allocate_from_heap(size, size_class);
      heap.count_taken(used);
    }
    record_held(block);
    return block;
  }
  if (unlikely(size > PTRDIFF_MAX)) return refuse();
  void* pointer = allocate_large(size, kBlockAlign, nullptr);
  return likely(pointer != nullptr) ? pointer : allocate_in_need(size, kSliceSize);
}

void flush_own_heap() {
  if (!has_heap()) return;
  const LockGuard guard(current_heap->lock);
  current_heap->flush();
}

namespace {

// A number that changes when a thread ends or frees something that may allow more memory to be
// given back: a run of slices, blocks of other heaps, or blocks of its own spans.
uint64_t freed_so_far() {
  uint64_t sum = heap_totals().parked;
  for (unsigned n = 0; n < topology.count; n++) sum += nodes[n].gives();
  for (uint32_t id = 0; id < heap_count(); id++) {
    const Heap& heap = *heap_by_id(id);
    sum += heap.returns.local.load(kRelaxed);  // relaxed: as below
    sum += heap.freed_spare.load(kRelaxed);    // relaxed: as below
    for (unsigned n = 0; n < topology.count; n++)
      sum += heap.freed_of[n].load(kRelaxed);  // relaxed: to see the caller's own frees suffices
  }
  return sum;
}

// The value of freed_so_far() when everything was last given back in vain.
constinit Atomic<uint64_t> freed_at_refusal{~uint64_t{0}};

// An upper bound of what giving everything back could unmap.
size_t most_reclaimable() {
  size_t committed = 0;
  for (unsigned n = 0; n < topology.count; n++) committed += nodes[n].totals().committed;
  return committed - min_of(committed, large_bytes());
}

}  // namespace

NEAR_COLD size_t reclaim_everything(size_t keep) {
  if (is_inside()) return 0;
  give_back_magazines(true);  // before the flush: some of these blocks are the caller's own
  flush_own_heap();
  clean_heaps(true);
  size_t purged = 0;
  for (unsigned n = 0; n < topology.count; n++) purged += nodes[n].trim(keep / topology.count);
  report_recorded_damage();
  return purged;
}

Need::Need(size_t bytes) {
  if (os::refuses(bytes)) return;
  flush_own_heap();
  freed_ = freed_so_far();
  if (freed_ == freed_at_refusal.load(kRelaxed)) return;  // relaxed: a hint
  const size_t reclaimable = most_reclaimable();
  if (bytes > reclaimable && !os::grants(bytes - reclaimable)) return;
  reclaim_everything();
  has_hope_ = true;
}

void Need::record_vain() const { freed_at_refusal.store(freed_, kRelaxed); }  // relaxed: a hint

static void* reclaim_and_allocate(size_t size, size_t alignment) {
  const bool is_large = size > kMediumMax;
  const Need need(is_large ? size + alignment : size);
  if (!need.has_hope()) return nullptr;
  void* pointer =
      is_large ? allocate_large(size, alignment, nullptr) : allocate_class(class_of(size));
  if (pointer == nullptr) need.record_vain();
  return pointer;
}

NEAR_COLD void* allocate_in_need(size_t size, size_t alignment) {
  if (is_inside()) {  // an aligned request asks for a class size, a multiple of its alignment
    return take_emergency(size, size <= kMediumMax ? size & -size : alignment);
  }
  void* pointer = reclaim_and_allocate(size, alignment);
  if (pointer == nullptr) return refuse();
  if (size <= kMediumMax) record_held(static_cast<Block*>(pointer));
  return pointer;
}

void release_slow(void* pointer) {
  if (pointer == nullptr) return;
  Span* span = span_of(pointer);
  if (unlikely(span == nullptr)) return is_emergency(pointer) ? void() : release_foreign(pointer);
  release_in_slice(span, pointer);
}

void release_medium(void* pointer) {
  Span* span = span_in_first_window(pointer);
  const uint64_t offset = reinterpret_cast<uintptr_t>(pointer) % kSliceSize;
  const bool is_done =
      !span->frees_are_fast() && release_local(*span, static_cast<Block*>(pointer), offset);
  if (unlikely(!is_done)) release_slow(pointer);
}

void release_other(void* pointer) {
  Span* span = span_in_first_window(pointer);
  const auto offset = static_cast<uint16_t>(reinterpret_cast<uintptr_t>(pointer));
  const auto seen = span->remote.look();
  if (!seen.is_open()) return release_in_slice(span, pointer);
  const SizeClass& shape = shape_of(seen.size_class(), span->slices);
  const bool is_start = starts_block(uint32_t{offset}, shape.reciprocal);
  if (unlikely(!is_start || offset >= shape.capacity * shape.size)) return report_no_block(pointer);
  push_remote(*span, SpanBlocks{static_cast<char*>(pointer) - offset}, static_cast<Block*>(pointer),
              seen);
}

// Called when the free of `pointer`, in the first slice of a span in the first window, took the
// span's count to zero.
void release_count(void* pointer) {
  Span* span = span_in_first_window(pointer);
  if (likely(span->idle)) return;  // it waits, with all its blocks free, for its next user
  reach_count(span);
}

void reach_count(Span* span) {
  current_heap->on_count(span);
  report_recorded_damage();
}

}  // namespace near

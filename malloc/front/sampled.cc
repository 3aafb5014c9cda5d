#include "front/sampled.h"

#include "front/front.h"
#include "front/invalid.h"
#include "front/large.h"
#include "node/memory.h"

namespace near {
namespace {

profile::Actor this_actor() {
  return {has_heap() ? current_heap->id() : profile::kNoHeap, current_node()};
}

// True if the request is to be sampled, when the countdown has ended. Then end_sample follows, with
// the heap that the thread has when this returns.
// All threads begin with `empty_heap`, whose countdown has always ended: it is never set. Such a
// thread gets its own heap here, and that heap counts the request.
bool is_sample(size_t bytes) {
  if (is_inside()) return false;
  if (unlikely(current_heap == &empty_heap)) {
    if (!enter_thread() || !current_heap->countdown.count(bytes)) return false;
  }
  return profile::begin_sample(*current_heap, bytes);
}

size_t counted_bytes(size_t size) { return size + (size == 0); }

NEAR_INLINE bool is_due(size_t size) {
  const size_t bytes = counted_bytes(size);
  return unlikely(current_heap->countdown.count(bytes)) && is_sample(bytes);
}

// `counted` is the heap whose countdown has ended. The block is as large as one of that heap.
void* take_sampled(Heap& counted, Shard& shard, size_t size, unsigned size_class, bool strict) {
  const unsigned used = counted.class_of_small.in_use(size_class);
  void* block = profile::take_sampled(size, used, shard, this_actor(), strict);
  profile::end_sample(counted);
  return block;
}

// Takes a block of a class. The bin of a small class may have one, though the fast path found none.
NEAR_INLINE void* take_ordinary(size_t size) {
  if (likely(size <= kSmallMax)) {
    const unsigned size_class = current_heap->class_of_small.in_use(kClassOfSmall[size]);
    if (Block* block = current_heap->bins[size_class].pop(); likely(block != nullptr)) {
      record_held(block);
      return block;
    }
  }
  return allocate_uncounted(size);
}

NEAR_NOINLINE void* allocate_at_end(size_t size) {
  if (is_sample(counted_bytes(size))) {
    Heap& counted = *current_heap;  // the next call may give the thread another one
    Shard& shard = current_shard();
    if (void* block = take_sampled(counted, shard, size, class_of(size), false)) return block;
  }
  return take_ordinary(size);
}

NEAR_NOINLINE void* allocate_large_counted(size_t size) {
  void* block = allocate_uncounted(size);
  if (block != nullptr) count_large(block, size);
  return block;
}

}  // namespace

// The countdown is the only work for most requests, so the rest is called at the ends.
void* allocate_counted(size_t size) {
  if (unlikely(size > kMediumMax)) return allocate_large_counted(size);
  if (unlikely(current_heap->countdown.count(counted_bytes(size)))) return allocate_at_end(size);
  return take_ordinary(size);
}

void* take_if_due(Shard& shard, size_t size, unsigned size_class, bool strict) {
  if (!is_due(size)) return nullptr;
  return take_sampled(*current_heap, shard, size, size_class, strict);
}

static void count_part(void* block, size_t size, size_t part) {
  Span* span = span_of(block);
  if (unlikely(span == nullptr) || likely(!is_due(part))) return;  // an emergency block has no span
  Heap& heap = *current_heap;
  profile::record_large(*span, size, this_actor());
  profile::end_sample(heap);
}

void count_large(void* block, size_t size) { count_part(block, size, size); }

void count_resized(Span& span, size_t before, size_t size) {
  if (size == before) return;
  const bool was_sampled = span.sampled != Sampled::none;
  const bool has_grown = size > before;
  if (was_sampled && has_grown && profile::record_growth(span, size)) return;
  if (was_sampled) profile::release_sampled(span, span.start, this_actor());
  const size_t part = has_grown ? size - before : size;
  if (profile::is_running()) count_part(span.start, size, part);
}

void release_sampled(Span& span, void* block) {
  if (unlikely(is_inside())) return;  // the block is not freed
  const bool is_large = span.sampled == Sampled::large;
  if (!profile::release_sampled(span, block, this_actor())) {
    const bool inside = is_large ? block != span.start : !profile::is_sampled_block(span, block);
    return report_invalid(block, inside ? "it is not the start of a block"
                                        : "it was freed before, or never allocated");
  }
  if (is_large) release_large(span);
}

}  // namespace near

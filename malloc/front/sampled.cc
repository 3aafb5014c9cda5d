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

// As how many bytes a request counts: small ones as their blocks do (heap/marks.h).
size_t counted_bytes(size_t size, unsigned used) {
  return used < kSmallClasses ? class_size(used) : size;
}

NEAR_INLINE bool is_due(size_t bytes) {
  return unlikely(current_heap->countdown.count(bytes)) && is_sample(bytes);
}

// `counted` is the heap whose countdown has ended. The block is as large as one of that heap.
void* take_sampled(Heap& counted, Shard& shard, size_t size, unsigned size_class, bool strict) {
  const unsigned used = counted.class_of_small.in_use(size_class);
  void* block = profile::take_sampled(size, used, shard, this_actor(), strict);
  profile::end_sample(counted);
  return block;
}

NEAR_NOINLINE void* allocate_at_end(size_t size, size_t asked, size_t counted_as) {
  if (is_sample(counted_as)) {
    Heap& counted = *current_heap;  // the next call may give the thread another one
    Shard& shard = current_shard();
    if (void* block = take_sampled(counted, shard, asked, class_of(size), false)) return block;
  }
  return allocate_uncounted(size);
}

// Counts a request before it gets a block: a medium one, and those of a thread without a heap.
NEAR_INLINE void* count_and_allocate(size_t size, size_t asked) {
  Heap& heap = *current_heap;
  const size_t bytes = counted_bytes(asked, heap.class_of_small.in_use(class_of(size)));
  if (unlikely(heap.countdown.count(bytes))) return allocate_at_end(size, asked, bytes);
  return allocate_uncounted(size);
}

// Takes a small block, and finds out whether it is due.
NEAR_INLINE void* take_small(Heap& heap, size_t size, unsigned used) {
  heap.last_due = Due::no;
  Block* block = heap.take_first(heap.bins[heap.class_of_small[size]]);
  if (Magazines* magazines = heap.magazines(); block == nullptr && magazines != nullptr) {
    block = magazines->take_ready(used);
    if (block != nullptr) count_put_away(used);
  }
  if (block == nullptr) return allocate_uncounted(size);
  record_held(block);
  return block;
}

// False if the mark of a block that the thread's heap took last is one of an earlier run.
bool is_of_this_run(const void* block) {
  const LockGuard guard(current_heap->lock);
  return current_heap->marks.has_tried(span_with(block));
}

// Returns a sampled block in the place of one that was due, which is freed. If there is none, or
// the thread is taking a sample, it returns that one.
NEAR_NOINLINE void* exchange(void* block, size_t asked, unsigned size_class, Due due) {
  if (is_inside() || (due == Due::by_mark && !is_of_this_run(block))) return block;
  Heap& heap = *current_heap;
  const size_t bytes = class_size(heap.class_of_small.in_use(size_class));
  if (due == Due::by_mark ? !profile::begin_marked_sample(heap)
                          : !profile::begin_sample(heap, bytes)) {
    return block;
  }
  void* sampled = take_sampled(heap, current_shard(), asked, size_class, false);
  if (sampled == nullptr) return block;
  release(block);
  return sampled;
}

void* allocate_small_counted(size_t size, size_t asked) {
  if (unlikely(!has_heap()) && (is_inside() || !enter_thread())) {
    return count_and_allocate(size, asked);
  }
  Heap& heap = *current_heap;
  const unsigned size_class = kClassOfSmall[size];
  void* block = take_small(heap, size, heap.class_of_small.in_use(size_class));
  const Due due = current_heap->last_due;
  if (likely(due == Due::no) || unlikely(block == nullptr)) return block;
  return exchange(block, asked, size_class, due);
}

NEAR_NOINLINE void* allocate_large_counted(size_t size) {
  void* block = allocate_uncounted(size);
  if (block != nullptr) count_large(block, size);
  return block;
}

}  // namespace

void* allocate_counted(size_t size, size_t asked) {
  if (size <= kSmallMax) return allocate_small_counted(size, asked);
  if (likely(size <= kMediumMax)) return count_and_allocate(size, asked);
  return allocate_large_counted(size);
}

void count_put_away(unsigned size_class) {
  if (size_class >= kSmallClasses) return;
  Heap& heap = *current_heap;
  heap.last_due = heap.countdown.count(class_size(size_class)) ? Due::by_count : Due::no;
}

void* take_if_due(Shard& shard, size_t size, unsigned size_class, bool strict) {
  can_have_heap();  // which class serves the request, the thread's own heap says
  const unsigned used = current_heap->class_of_small.in_use(size_class);
  if (!is_due(counted_bytes(size, used))) return nullptr;
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

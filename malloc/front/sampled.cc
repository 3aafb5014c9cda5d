#include "front/sampled.h"

#include "front/damage.h"
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

NEAR_INLINE bool is_due(size_t bytes) {
  return unlikely(current_heap->countdown.count(bytes)) && is_sample(bytes);
}

// True if a request for a class is to be sampled that is not counted ahead. The class becomes the
// one that serves it.
bool is_due(size_t size, unsigned& size_class) {
  if (unlikely(!has_heap()) && !is_inside()) enter_thread();
  size_class = current_heap->class_of_small.in_use(size_class);
  return is_due(profile::counted_bytes(size, class_size(size_class)));
}

// `counted` is the heap whose countdown has ended. The block is as large as one of that heap.
void* take_sampled(Heap& counted, Shard& shard, size_t size, unsigned used, bool strict) {
  void* block = profile::take_sampled(size, used, shard, this_actor(), strict);
  profile::end_sample(counted);
  return block;
}

// Serves a request for a class that is not counted ahead: of a medium class, or of a thread without
// a heap.
void* allocate_singly(size_t size, unsigned size_class) {
  if (is_due(size, size_class)) {
    Heap& counted = *current_heap;  // the next call may give the thread another one
    Shard& shard = current_shard();
    if (void* block = take_sampled(counted, shard, size, size_class, false)) return block;
  }
  return allocate_uncounted(size);
}

// Takes the sampled block of a small class. Until the next interval is drawn, the class takes no
// other.
void* allocate_sample(size_t size, unsigned used) {
  Heap& counted = *current_heap;
  BlockCountdown& countdown = counted.until_sample[used];
  countdown.set(BlockCountdown::kMost);
  Shard& shard = current_shard();  // this call may give the thread another heap
  void* block = profile::take_sampled(size, used, shard, this_actor(), false);
  countdown.set(profile::draw_blocks(class_size(used)));
  return block != nullptr ? block : allocate_uncounted(size);
}

Block* pop_ahead(Heap& heap, unsigned used) {
  Block* block = heap.ahead(used).pop();
  if (block != nullptr) record_held(block);
  return block;
}

// Serves a request of a small class when none of its blocks is counted ahead.
NEAR_NOINLINE void* allocate_small_counted(size_t size) {
  if (unlikely(is_inside())) return allocate_uncounted(size);
  if (unlikely(!can_have_heap())) return allocate_singly(size, kClassOfSmall[size]);
  Heap& heap = *current_heap;
  if (unlikely(heap.class_of_small.bins() == Bins::empty)) heap.begin_counting();
  const unsigned used = heap.class_of_small.in_use(kClassOfSmall[size]);
  BlockCountdown& countdown = heap.until_sample[used];
  if (unlikely(!countdown.is_drawn())) countdown.set(profile::draw_blocks(class_size(used)));
  if (unlikely(countdown.left() == 0)) return allocate_sample(size, used);
  heap.fill_ahead(used);
  report_recorded_damage();
  if (Block* block = pop_ahead(heap, used)) return block;
  countdown.take(1);
  return allocate_uncounted(size);
}

NEAR_NOINLINE void* allocate_large_counted(size_t size) {
  void* block = allocate_uncounted(size);
  if (block != nullptr) count_large(block, size);
  return block;
}

}  // namespace

void* allocate_counted(size_t size) {
  if (likely(size <= kSmallMax)) return allocate_small_counted(size);
  if (unlikely(size > kMediumMax)) return allocate_large_counted(size);
  return allocate_singly(size, class_of_computed(size));
}

void* take_if_due(Shard& shard, size_t size, unsigned size_class, bool strict) {
  if (!is_due(size, size_class)) return nullptr;
  return take_sampled(*current_heap, shard, size, size_class, strict);
}

static void count_part(void* block, size_t size, size_t part) {
  Span* span = span_of(block);
  if (unlikely(span == nullptr) || likely(!is_due(max_of(part, 1))))
    return;  // an emergency block has no span
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
  const size_t part = has_grown && !was_sampled ? size - before : size;
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

// The functions built on malloc and free: calloc, aligned allocation, realloc, usable size.
#include <cerrno>
#include <cstring>

#include "front/emergency.h"
#include "front/front.h"
#include "front/invalid.h"
#include "front/large.h"
#include "front/refuse.h"
#include "front/sampled.h"
#include "heap/registry.h"
#include "node/memory.h"
#include "platform/options.h"
#include "platform/os.h"
#include "span/span.h"

namespace near {
namespace {

// Returns the span of a live block that starts at `pointer`, or null.
Span* span_of_block(const void* pointer) {
  Span* span = span_of(pointer);
  if (span == nullptr) return nullptr;
  if (span->kind == SpanKind::inside) span -= span->back;
  if (span->kind == SpanKind::blocks && is_block(*span, pointer)) return span;
  if (unlikely(span->sampled == Sampled::blocks)) {
    return profile::is_sampled_block(*span, pointer) ? span : nullptr;
  }
  return span->kind == SpanKind::large && span->start == pointer ? span : nullptr;
}

// As span_of_block, by the tests of `release`, which are faster. It also returns null for a block
// in a later slice of its span or in another window, and of a span whose frees are not fast or that
// this thread's heap does not own.
NEAR_INLINE Span* span_of_own_block(const void* pointer) {
  const size_t place = offset_in_reservation(pointer);
  if (unlikely(place >= reserved_bytes)) return nullptr;
  Span* span = &reserved_spans[place >> kSliceShift];
  // relaxed: only this thread makes its own heap the owner, so a stale value names another heap
  if (unlikely(span->owner.load(kRelaxed) != current_heap)) return nullptr;
  const auto offset = static_cast<uint16_t>(reinterpret_cast<uintptr_t>(pointer));
  return likely(offset * span->reciprocal < span->reciprocal_again) ? span : nullptr;
}

bool is_of_class(const Span& span) {
  return span.kind != SpanKind::large || span.sampled == Sampled::blocks;
}

// Bytes from the start of a block to the next.
size_t room_in(const Span& span) {
  return is_of_class(span) ? span.shape().size : span.bytes() - span.offset();
}

// Bytes that the program may use of a block; 0 if it is in no live block, as far as is known. Of a
// sampled block a handler that interrupted the allocator gets all that is there, because it must
// not wait for the profiler.
size_t usable_in(const Span& span, const void* pointer) {
  const bool asks = unlikely(span.sampled == Sampled::blocks) && !is_inside();
  return asks ? profile::sampled_size(pointer) : room_in(span);
}

// True if the program does not hold the block of a span that this thread's heap owns. The check
// build finds this always. Other builds find it, as `release` does, only if the block is the first
// on the span's list or a spare one.
NEAR_INLINE bool is_freed(Span& span, const Block* block) {
  uintptr_t distance;
  return span.list->is_first(block, distance) || current_heap->is_spare(span, block) ||
         !is_held(&span, block);
}

// False if the program is known not to hold the block, of any thread's span.
bool is_live(Span& span, const void* pointer) {
  if (span.kind == SpanKind::large) return true;  // the free of a sampled block finds out
  const auto* block = static_cast<const Block*>(pointer);
  if (span.remote.look().is_head(SpanBlocks{span.start}.index_of(block))) return false;
  // relaxed: only this thread makes its own heap the owner, so a stale value names another heap
  if (span.owner.load(kRelaxed) == current_heap) return !is_freed(span, block);
  return is_held(&span, block);
}

// Takes a block of a class with room, of which the profile counts what was asked for.
void* take_with_room(size_t size, size_t room) {
  return likely(!profile::is_running()) ? allocate(room) : allocate_counted(room, size);
}

// Allocates for a block that moves because it grows. A program that adds to a block often adds
// again: a block of a class gets a fifth more than it had, or it would be copied at each class. A
// large block begins at a slice, so that it can fill its last one.
void* allocate_to_grow(size_t usable, size_t size) {
  if (size > kMediumMax) return allocate_aligned(kSliceSize, size);
  const size_t room = min_of(usable + usable / 5, kMediumMax);
  const bool has_room = room > size && !is_inside();  // a handler's memory is scarce
  void* pointer = has_room ? take_with_room(size, room) : nullptr;
  return pointer != nullptr ? pointer : allocate(size);
}

// As `move`, for a large block of a MiB or more that grows. Null if its pages cannot move, and no
// run of whole chunks is free.
void* move_large(Span& span, void* pointer, size_t held, size_t size) {
  if (unlikely(profile::is_running() || span.sampled != Sampled::none)) return nullptr;
  bool moved = false;
  void* to = grow_large(span, size, moved);
  if (to == nullptr || moved) return to;
  memcpy(to, pointer, held);
  release(pointer);
  return to;
}

// `held`: bytes of the block that may have been written; `usable` or more.
void* move(void* pointer, size_t usable, size_t held, size_t size) {
  void* moved = size > usable ? allocate_to_grow(usable, size) : allocate(size);
  if (moved == nullptr) {
    if (size > usable) return nullptr;
    record_kept();
    return pointer;
  }
  memcpy(moved, pointer, min_of(held, size));
  release(pointer);
  return moved;
}

// Clears a large block. Programs with large arrays of zeroes may use few of the pages. So a block
// of a size always mapped anew by glibc loses its pages. Writing zeroes is faster for the others.
void* clear_large(void* pointer, size_t bytes) {
  constexpr size_t kMapped = 32 * kMiB;  // glibc's largest threshold of mappings
  const bool may_drop = bytes > kMapped && option(Option::populate_mib) == 0;
  const bool is_dropped = may_drop && os::purge(pointer, align_up(bytes, os::page_size()));
  return is_dropped ? pointer : memset(pointer, 0, bytes);
}

}  // namespace

void* allocate_zeroed(size_t count, size_t size) {
  size_t bytes = 0;
  if (unlikely(__builtin_mul_overflow(count, size, &bytes))) return refuse();
  if (bytes > kMediumMax && bytes <= PTRDIFF_MAX) {
    bool zero = false;
    void* pointer = allocate_large(bytes, kBlockAlign, &zero);
    if (pointer != nullptr && unlikely(profile::is_running())) count_large(pointer, bytes);
    if (pointer != nullptr) return zero ? pointer : clear_large(pointer, bytes);
  }
  void* pointer = allocate(bytes);
  return unlikely(pointer == nullptr) ? nullptr : memset(pointer, 0, bytes);
}

void* allocate_aligned(size_t alignment, size_t size) {
  if (alignment <= kBlockAlign) return allocate(size);
  const unsigned size_class = class_for(size, alignment);
  if (size_class < kClasses) return allocate(kSizeClasses[size_class].size);
  if (size > PTRDIFF_MAX || alignment > PTRDIFF_MAX / 2) return refuse();
  size = max_of(size, kMediumMax + 1);
  alignment = max_of(alignment, kSliceSize);
  void* pointer = allocate_large(size, alignment, nullptr);
  if (pointer == nullptr) pointer = allocate_in_need(size, alignment);
  if (pointer != nullptr && unlikely(profile::is_running())) count_large(pointer, size);
  return pointer;
}

namespace {

// Resizes a large block. False if the slices behind are taken, or `size` is small.
bool resize_counted(Span& span, size_t size) {
  const size_t before = span.asked;
  if (size <= kMediumMax || size > PTRDIFF_MAX || !resize_large(span, size)) return false;
  if (unlikely(profile::is_running() || span.sampled != Sampled::none)) {
    count_resized(span, before, size);
  }
  return true;
}

NEAR_COLD void* refuse_freed(const void* pointer) {
  report_invalid(pointer, "realloc of a block that was freed before");
  return refuse();
}

// As reallocate, for every pointer.
NEAR_NOINLINE void* reallocate_any(void* pointer, size_t size) {
  if (pointer == nullptr) return allocate(size);
  if (size == 0) {
    release(pointer);  // release() gives another allocator's block back to it
    return nullptr;
  }
  Span* span = span_of_block(pointer);
  if (unlikely(span == nullptr)) {
    if (is_emergency(pointer)) {
      const size_t usable = emergency_size(pointer);
      return move(pointer, usable, usable, size);
    }
    if (span_of(pointer) == nullptr) return reallocate_foreign(pointer, size);
    report_invalid(pointer, "realloc of what is no live block of this allocator");
    return refuse();
  }
  const size_t usable = usable_in(*span, pointer);
  if (unlikely(usable == 0)) return refuse_freed(pointer);
  if (!is_of_class(*span)) {
    if (resize_counted(*span, size)) return pointer;
    if (size > span->asked) {
      if (void* moved = move_large(*span, pointer, room_in(*span), size)) return moved;
    }
  } else if (fits_well(size, usable)) {
    return likely(is_live(*span, pointer)) ? pointer : refuse_freed(pointer);
  }
  return move(pointer, usable, room_in(*span), size);
}

}  // namespace

void* reallocate(void* pointer, size_t size) {
  Span* span = span_of_own_block(pointer);
  if (unlikely(span == nullptr || size == 0)) return reallocate_any(pointer, size);
  const size_t usable = span->shape().size;
  if (!fits_well(size, usable)) return move(pointer, usable, usable, size);
  const bool freed = is_freed(*span, static_cast<Block*>(pointer));
  return likely(!freed) ? pointer : refuse_freed(pointer);
}

size_t usable_size(const void* pointer) {
  if (pointer == nullptr) return 0;
  if (Span* span = span_of_block(pointer)) {
    return is_live(*span, pointer) ? usable_in(*span, pointer) : 0;
  }
  if (is_emergency(pointer)) return emergency_size(pointer);
  return span_of(pointer) == nullptr ? usable_size_of_foreign(pointer) : 0;
}

size_t resize_in_place(void* pointer, size_t least, size_t most) {
  Span* span = span_of_block(pointer);
  if (span != nullptr && !is_of_class(*span)) {
    const size_t larger = max_of(most, kMediumMax + 1);
    const bool done = resize_counted(*span, larger);
    if (!done && usable_in(*span, pointer) < least) resize_counted(*span, least);
  }
  return usable_size(pointer);
}

size_t whole_block(size_t size, size_t alignment) {
  const unsigned size_class = class_for(size, alignment);
  if (size_class < kClasses) {
    if (!is_inside()) can_have_heap();
    return kSizeClasses[current_heap->class_of_small.in_use(size_class)].size;
  }
  if (size > PTRDIFF_MAX - kSliceSize || alignment > PTRDIFF_MAX / 2) return 0;
  return align_up(max_of(size, kMediumMax + 1), kSliceSize);
}

}  // namespace near

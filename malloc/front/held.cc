#include "front/held.h"

#include "front/front.h"
#include "front/invalid.h"
#include "heap/class_table.h"
#include "span/span.h"

#if NEAR_CHECK

namespace near {
namespace {

// The word and the bit that record a block.
struct Held {
  Atomic<uint64_t>& word;
  uint64_t bit;

  Held(Span& span, const Block* block)
      : word(span.held[index(span, block) / 64]), bit(uint64_t{1} << index(span, block) % 64) {}
  static uint32_t index(const Span& span, const Block* block) {
    const auto offset = reinterpret_cast<const char*>(block) - span.start;
    return static_cast<uint32_t>(static_cast<size_t>(offset) / span.shape().size);
  }
};

}  // namespace

void record_held(const Block* block) {
  Span* span = span_of(block);
  if (span != nullptr && span->kind == SpanKind::inside) span -= span->back;
  if (span == nullptr || span->kind != SpanKind::blocks || !is_block(*span, block)) {
    return report_list(block, "malloc is about to hand out what is no block");
  }
  Held held(*span, block);
  // relaxed: a block has one holder at a time
  if ((held.word.fetch_or(held.bit, kRelaxed) & held.bit) != 0) {
    report_list(block, "malloc is about to hand out a block that the program holds");
  }
}

bool record_freed(Span* span, const Block* block) {
  Held held(*span, block);
  return (held.word.fetch_and(~held.bit, kRelaxed) & held.bit) != 0;  // relaxed: as above
}

bool is_held(Span* span, const Block* block) {
  Held held(*span, block);
  return (held.word.load(kRelaxed) & held.bit) != 0;  // relaxed: as above
}

namespace {

constinit Atomic<bool> has_kept{false};

bool is_large_block(const Span& span) {
  return span.kind == SpanKind::large && span.sampled != Sampled::blocks;
}

// True if a request for `size` bytes at a multiple of `alignment` may get such a block of a class.
bool may_serve(size_t usable, size_t size, size_t alignment) {
  const unsigned wanted = class_for(size, alignment);
  if (wanted == kClasses) return false;
  const unsigned found = class_of(usable);
  return found == wanted || (found == wanted + 1 && ClassTable::may_join(wanted));
}

// The same for a large block.
bool may_serve_large(const Span& span, size_t size, size_t alignment) {
  return class_for(size, alignment) == kClasses && span.asked == max_of(size, kMediumMax + 1);
}

// The most bytes that the whole block for such a request has; `size` if that is large.
size_t most_for(size_t size, size_t alignment) {
  const unsigned wanted = class_for(size, alignment);
  if (wanted == kClasses) return size;
  return kSizeClasses[wanted + (ClassTable::may_join(wanted) ? 1 : 0)].size;
}

// True if a large block of `size` bytes needs the slices of the request, or of the whole block.
bool may_need_slices_of(const Span& span, size_t size) {
  const size_t needed = div_up(max_of(size, 1), kSliceSize);
  return needed == div_up(span.asked, kSliceSize) || needed == span.slices ||
         div_up(span.offset() + size, kSliceSize) == span.slices;
}

// True if realloc may have left such a block where it was.
bool may_be_kept(size_t usable, size_t size) {
  // relaxed: a hint, which only makes the check weaker
  return size <= usable && (fits_well(size, usable) || has_kept.load(kRelaxed));
}

}  // namespace

void record_kept() { has_kept.store(true, kRelaxed); }  // relaxed: as above

namespace {

// Reports the block if `is_right(span, usable)` is false. The blocks of another allocator, and of a
// handler, have no span.
template <typename IsRight>
void check(const void* pointer, size_t alignment, IsRight is_right) {
  if (pointer == nullptr || !is_power_of_two(alignment)) return;
  const size_t usable = usable_size(pointer);
  if (usable == 0) return;  // the free finds out
  if (!is_right(enclosing_span(pointer), usable)) {
    report_invalid(pointer, "freed with a size that is not the block's");
  }
}

}  // namespace

void check_size(const void* pointer, size_t size, size_t alignment, Resized resized) {
  check(pointer, alignment, [&](const Span* span, size_t usable) {
    if (span == nullptr) return size <= usable;
    if (resized == Resized::maybe && may_be_kept(usable, size)) return true;
    return is_large_block(*span) ? may_serve_large(*span, size, alignment)
                                 : may_serve(usable, size, alignment);
  });
}

void check_size_within(const void* pointer, size_t size, size_t alignment) {
  check(pointer, alignment, [&](const Span* span, size_t usable) {
    const size_t most = min_of(most_for(size, alignment), max_of(usable, size));
    if (span == nullptr || may_be_kept(usable, most)) return true;
    return is_large_block(*span) ? may_need_slices_of(*span, size)
                                 : may_serve(usable, size, alignment);
  });
}

}  // namespace near

#endif

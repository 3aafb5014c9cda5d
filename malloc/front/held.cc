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

// True if a request for `size` bytes at a multiple of `alignment` may get such a block.
bool may_serve(const Span& span, size_t usable, size_t size, size_t alignment) {
  const unsigned wanted = class_for(size, alignment);
  const bool is_large = span.kind == SpanKind::large && span.sampled != Sampled::blocks;
  if (is_large) return wanted == kClasses && span.asked == max_of(size, kMediumMax + 1);
  if (wanted == kClasses) return false;
  const unsigned found = class_of(usable);
  return found == wanted || (found == wanted + 1 && ClassTable::may_join(wanted));
}

// True if realloc may have left such a block where it was.
bool may_be_kept(size_t usable, size_t size) {
  // relaxed: a hint, which only makes the check weaker
  return size <= usable && (fits_well(size, usable) || has_kept.load(kRelaxed));
}

}  // namespace

void record_kept() { has_kept.store(true, kRelaxed); }  // relaxed: as above

void check_size(const void* pointer, size_t size, size_t alignment, Resized resized) {
  if (pointer == nullptr || !is_power_of_two(alignment)) return;
  const size_t usable = usable_size(pointer);
  if (usable == 0) return;  // the free finds out
  const Span* span = enclosing_span(pointer);
  const bool is_right = span == nullptr  // another allocator's block, or one of a handler
                            ? size <= usable
                            : may_serve(*span, usable, size, alignment) ||
                                  (resized == Resized::maybe && may_be_kept(usable, size));
  if (!is_right) report_invalid(pointer, "freed with a size that is not the block's");
}

}  // namespace near

#endif

#include "front/held.h"

#include "front/front.h"
#include "front/invalid.h"

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
  Held held(span_with(block), block);
  held.word.fetch_or(held.bit, kRelaxed);  // relaxed: a block has one holder at a time
}

bool record_freed(Span* span, const Block* block) {
  Held held(*span, block);
  return (held.word.fetch_and(~held.bit, kRelaxed) & held.bit) != 0;  // relaxed: as above
}

bool is_held(Span* span, const Block* block) {
  Held held(*span, block);
  return (held.word.load(kRelaxed) & held.bit) != 0;  // relaxed: as above
}

void check_size(const void* pointer, size_t size) {
  if (pointer == nullptr) return;
  const size_t usable = usable_size(pointer);
  if (usable != 0 && size > usable)
    report_invalid(pointer, "freed with a size larger than the block");
}

}  // namespace near

#endif

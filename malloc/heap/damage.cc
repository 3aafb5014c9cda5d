// What a heap does about a free list that the program damaged.
//
// The list is abandoned: it no longer shows which of its blocks are free, so from now on they count
// as blocks that the program holds for ever. The counts stay true, the span never leaves, and
// malloc goes on with other blocks.
// Thread-safety: only the heap's owner, with the lock held.
#include "heap/damage.h"

#include "heap/heap.h"

namespace near {

constinit RecordedDamage recorded_damage;

namespace {

constexpr unsigned kFlawShift = 60;  // above every address

}  // namespace

void record_damage(const Damage& damage) {
  const auto flaw = static_cast<uint64_t>(damage.flaw);
  uint64_t none = 0;
  // relaxed: no other data is published
  recorded_damage.word.compare_exchange_strong(
      none, flaw << kFlawShift | reinterpret_cast<uintptr_t>(damage.block), kRelaxed);
}

Damage take_damage() {
  const uint64_t noted = recorded_damage.word.exchange(0, kRelaxed);  // relaxed: as above
  const uint64_t address = noted & ((uint64_t{1} << kFlawShift) - 1);
  return {static_cast<Flaw>(noted >> kFlawShift), reinterpret_cast<const void*>(address)};
}

void Heap::abandon_list(Span& span, const Damage& damage) {
  record_damage(damage);
  count_frees(span);
  span.list->clear(span.start);
  span.ghost = {};
  const uint32_t freed = count_uncarved(span);
  if (!is_hot(span)) {
    reusable_.unfile(span);
    settle(span, freed);
  } else if (span.size_class >= kSmallClasses) {  // small classes are not counted
    set_count(span, freed, span.shape().capacity);
  }
}

void Heap::abandon_bin(unsigned size_class) {
  Span& span = *hot_[size_class];
  const bool ends = bins[size_class].is_empty();  // at a wrong place: the last block was popped
  const auto* first = reinterpret_cast<const char*>(bins[size_class].head() & ~uintptr_t{1});
  abandon_list(span, {ends || is_block(span, first) ? Flaw::overwritten : Flaw::stray, first});
}

uint32_t Heap::count_hot_free(unsigned size_class) {
  Span& span = *hot_[size_class];
  ListWalk walk(span, bins[size_class]);
  while (walk.next() != nullptr) continue;
  if (unlikely(walk.damage().present())) {
    abandon_list(span, walk.damage());
    return count_uncarved(span);
  }
  return walk.count() + count_uncarved(span);
}

}  // namespace near

// When hot spans of the small classes leave.
//
// Small blocks are not counted when they are allocated, so only a walk of the bin shows whether a
// hot span is all free. The heap walks the bin after as many frees as blocks were live: if none was
// allocated since, the span leaves at the free of its last block. Each walk delays the next one,
// until the heap has shrunk or the purge thread asks for a look. In a heap that has shrunk, a span
// that is half free becomes cold as well, so that its free pages can be given back.
// Thread-safety: only the heap's owner, with the lock held.
#include <iterator>

#include "base/bits.h"
#include "heap/heap.h"
#include "span/span.h"

namespace near {
namespace {

// The least number of frees between two looks at a hot span, by the number of looks so far.
constexpr uint16_t kPatience[] = {1, 1, 16, 256, 4096};
constexpr uint8_t kMaxLooks = std::size(kPatience) - 1;

}  // namespace

void Heap::await_look(Span& span, uint32_t live) {
  const uint32_t patience = kPatience[looks_[span.size_class]];
  await_frees(span, static_cast<uint32_t>(max_of(live, patience)));
}

void Heap::await_frees(Span& span, uint32_t frees) {
  span.frees.await(frees);
  span.counted = 0;
  marks.look_ahead(span);
}

// Counts anew, because a block was marked or may be; the span's next event is so many frees away.
void Heap::count_on(Span& span, uint32_t frees) {
  count_frees(span);
  if (is_hot(span)) return await_frees(span, frees);
  const uint32_t freed = span.frees.freed();
  set_count(span, freed, freed + frees);
}

// Called when the profiler runs: makes requests for a class lead to its bin, in which every block
// has had its trial.
void Heap::open_class(unsigned size_class) {
  Span* span = hot_[size_class];
  if (span != nullptr && !marks.has_tried(*span)) {
    marks.be_tried(*span);
    count_on(*span, span->frees.remaining());
  }
  class_of_small.open(size_class);
}

// As carve, of a hot span; the blocks get their trials.
void Heap::carve_tried(Span& span) {
  const uint32_t before = span.uncarved;
  carve(span, *span.list);
  marks.add(span, span.list->front(), count_blocks(span, before & ~span.uncarved));
}

Block* Heap::take_marked(FreeList& list) {
  Block* block = list.pop_marked();
  if (block != nullptr) last_due = Due::by_mark;
  return block;
}

void Heap::look_at_hot(Span& span) {
  uint8_t& looks = looks_[span.size_class];
  count_frees(span);
  if (looks == kMaxLooks) return await_look(span, FreeCount::kMaxAwaited);
  looks++;
  const uint32_t capacity = span.shape().capacity;
  const uint32_t free = count_hot_free(span.size_class);
  if (free == capacity || (is_sparse(span, free) && has_shrunk())) {
    cool_hot(span.size_class, free);
  } else {
    await_look(span, capacity - free);
  }
}

// Answers the purge thread's request.
void Heap::look_again() {
  look_at_all_hot();
  if (Magazines* mine = magazines()) mine->give_back_unused(!uses_magazines());
}

// Resets the counts of looks and looks now, because time has passed or the heap has shrunk.
void Heap::look_at_all_hot() {
  look_again_.store(false, kRelaxed);  // relaxed: a request flag
  looked_when_ = clock_.now();
  shrinking_.age();
  idle_.forget();
  for (unsigned c = 0; c < kSmallClasses; c++) {
    looks_[c] = 0;
    if (hot_[c] != nullptr) look_at_hot(*hot_[c]);
  }
  for (unsigned c = kSmallClasses; c < kClasses; c++) return_spares(c, 0);
}

}  // namespace near

// Whether the structures of a heap are whole.
#include "heap/heap.h"
#include "node/memory.h"
#include "platform/message.h"
#include "span/span.h"

namespace near {

size_t Heap::check_span(const Span& span) const {
  size_t wrong = 0;
  const auto expect = [&](bool holds, const char* what) {
    if (holds) return;
    wrong++;
    message("span %p of heap %u (blocks of %u bytes): %s", static_cast<void*>(span.start), id_,
            span.shape().size, what);
  };
  const auto seen = span.remote.look();
  expect(seen.is_open() && seen.size_class() == span.size_class && seen.node() == span.node &&
             seen.owner() == id_,
         "other threads take it for something else");
  ListWalk walk(span, *span.list);
  while (walk.next() != nullptr) continue;
  expect(!walk.damage().present(), describe(walk.damage().flaw));
  const uint32_t free = walk.count();
  const uint32_t uncarved = count_uncarved(span);
  expect(free + uncarved + seen.count() <= span.shape().capacity, "more free blocks than blocks");
  if (is_hot(span)) {
    expect(span.list == &bins[span.size_class], "hot, but its list is not the bin");
    if (span.size_class < kSmallClasses) return wrong;
  } else {
    expect(span.list == &span.local, "cold, but its list is not its own");
  }
  if (registration.interrupted)
    return wrong;  // the count may miss a block: it is lost, not doubled
  expect(span.frees.freed() == free + uncarved, "the count of free blocks is wrong");
  expect(is_hot(span) || (span.reusable == (span.frees.freed() >= span.shape().reuse_at) &&
                          span.spent == (is_crowded(span.size_class) && !span.reusable)),
         "not filed as its free blocks demand");
  return wrong;
}

size_t Heap::check_spares() const {
  size_t wrong = 0;
  spares_.for_each([&](unsigned size_class, const Block* block) {
    const Span& span = span_with(block);
    // relaxed: spans of this heap do not change now
    const bool is_own = span.owner.load(kRelaxed) == this && span.size_class == size_class;
    if (is_own && is_block(span, block) && !is_hot(span) && !span.frees_are_fast()) return;
    wrong++;
    message("spare block %p of heap %u: %s", static_cast<const void*>(block), id_,
            is_own ? "frees of its span do not look for it" : "its span is not the heap's");
  });
  return wrong;
}

}  // namespace near

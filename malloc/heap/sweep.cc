// How a heap that has shrunk gives back free pages inside its spans.
//
// A span with live blocks cannot leave the heap, but its wholly free pages can be given back.
// Looking for them walks the free list, and each page that is needed again costs a page fault. So a
// heap looks for them only
//  - when it has shrunk: half of its spans are half free, or an eighth of its spans left it and did
//    not come back;
//  - in spans that have had free blocks for a while, because spans that a phase of the program
//    empties leave without a sweep;
//  - while the record is good: at most half of the pages given back were needed again.
// Thread-safety: only the heap's owner, lock held. docs/decisions/0005-pages-inside-spans.md
#include "base/bits.h"
#include "heap/heap.h"
#include "node/memory.h"
#include "platform/clock.h"

namespace near {
namespace {

constexpr unsigned kSweeps = 4;            // for each span that leaves a heap that has shrunk
constexpr uint16_t kLookAgainAfter = 512;  // events between looks at all hot spans
constexpr uint64_t kLookAgainMs = 10;      // and the time between them

}  // namespace

// True if the heap has shrunk, the record is good, and some reusable span is not yet swept.
bool Heap::shall_sweep() const {
  return reusable_.any_unswept() && shrinking_.is_purging_useful() && has_shrunk();
}

// Called when a span left a heap that has shrunk: gives back empty spans and free pages of others.
void Heap::shrink() {
  drop_cache();
  for (unsigned i = 0; i < kSweeps && shall_sweep(); i++) sweep();
  if (EventClock::since(clock_.now(), looked_when_) <= kLookAgainAfter) return;
  looked_when_ = clock_.now();  // so that the clock is read no more often
  const uint64_t now = coarse_now_ms();
  if (!is_old(now, looked_ms_, kLookAgainMs)) return;
  looked_ms_ = now;
  look_at_all_hot();
}

void Heap::sweep() {
  const EventClock::Time age = clock_.events_of_while(coarse_now_ms());
  if (Span* span = reusable_.sweep_next(clock_.now(), age)) look_for_pages(*span);
}

// Gives back the free pages of a reusable span, if a sixteenth of its blocks were freed since the
// last look.
void Heap::look_for_pages(Span& span) {
  const uint32_t freed = span.frees.freed();
  if (freed < span.looked_at + max_of(span.shape().capacity / 16, 1)) return;
  span.looked_at = static_cast<uint16_t>(freed);
  Damage damage{};
  const auto pages = static_cast<uint32_t>(purge_free_pages(span, damage) >> kPageShift);
  if (unlikely(damage.present())) return abandon_list(span, damage);
  reusable_.count_look(span.size_class, freed, pages);
  shrinking_.count_purged(span, pages);
  if (pages > 0) shard_of(span).record_pages_purged(span);
}

}  // namespace near

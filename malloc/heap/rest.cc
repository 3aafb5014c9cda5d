// How free pages inside the spans of a heap leave while its owner sleeps, or runs without slow
// paths, or is gone.
//
// The owner's own sweeps (heap/sweep.cc) run while it frees, so they see no page that a later free
// completes, and end with the owner's last slow path. Here any thread with the heap's lock looks at
// the cold spans, one at a time, so that the owner waits for one span at most. It leaves the bins
// and the hot spans alone, because the owner uses these without the lock.
// Thread-safety: any thread, without the lock. docs/decisions/0024-heaps-at-rest.md
#include "base/bits.h"
#include "heap/heap.h"
#include "node/memory.h"
#include "platform/clock.h"
#include "platform/options.h"

namespace near {

// Gives back the free pages of a cold span. Returns how many.
uint32_t Heap::look_at_rest(Span& span) {
  const uint32_t freed = span.frees.freed();
  if (freed == span.looked_at || size_t{freed} * span.shape().size < kPageSize) return 0;
  span.looked_at = static_cast<uint16_t>(freed);
  Damage damage{};  // the owner finds it, too
  const auto pages = static_cast<uint32_t>(purge_behind_first(span, damage) >> kPageShift);
  if (pages == 0) return 0;
  shard_of(span).record_pages_purged(span);
  if (is_purgeable(span) && !span.swept) reusable_.mark_swept(span);
  return pages;
}

// Looks at each span of one list: each turn takes the last one to the front.
uint64_t Heap::sweep_at_rest(unsigned size_class, bool swept, bool (*is_over)()) {
  const Span* first = nullptr;
  uint64_t pages = 0;
  for (uint32_t turns = 0; !is_over(); turns++) {
    const LockGuard guard(lock);
    Span* span = reusable_.turn(size_class, swept);
    if (span == nullptr || span == first || turns > spans_[size_class]) break;
    pages += look_at_rest(*span);
    if (first == nullptr && span->swept == swept) first = span;
  }
  return pages;
}

void Heap::sweep_all_at_rest(bool (*is_over)()) {
  at_rest.begin();
  uint64_t pages = 0;
  for (unsigned c = 0; c < kClasses; c++) {
    pages += sweep_at_rest(c, false, is_over);
    if (c < kPagedClasses) pages += sweep_at_rest(c, true, is_over);
  }
  at_rest.end(coarse_now_ms(), pages);
}

void Heap::sweep_if_at_rest(bool everything, uint64_t now_ms) {
  // relaxed: compared with an earlier value
  const uint64_t activity = visits() + returns.counts.load(kRelaxed);
  const bool due =
      at_rest.is_due(activity, now_ms, static_cast<uint64_t>(option(Option::decay_ms)));
  if (everything) {
    sweep_all_at_rest([] { return false; });
  } else if (due) {
    sweep_all_at_rest([] { return purge_signal.stopping(); });
  }
}

}  // namespace near

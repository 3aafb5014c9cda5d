// What other threads do with a heap if its owner is idle or gone.
// Thread-safety: requires the heap's lock; a walk of its bins also requires the owner's rights.
#include "heap/heap.h"
#include "node/memory.h"

namespace near {

void Heap::flush() {
  drain();
  for (unsigned c = 0; c < kClasses; c++) {
    return_spares(c, 0);
    if (hot_[c] != nullptr) cool_hot(c, count_hot_free(c));
  }
  drop_cache();
  shrinking_.forget();
}

void Heap::drop_cache() {
  while (Span* span = cache_.take()) shard_of(*span).give(span);
  while (Span* run = runs_.take_oldest()) shard_of(*run).give(run);
  while (Span* run = last_runs_.take()) shard_of(*run).give(run);
}

uint32_t Heap::claim_for_sleeper() {
  uint32_t claimed = 0;
  Span* kept = nullptr;
  Span* last_kept = nullptr;
  for (Span* span = inbox_.take_all(); span != nullptr;) {
    Span* rest = span->pending_next;
    if (!is_hot(*span) && span->frees.freed() + span->remote.count() == span->shape().capacity) {
      claim(*span);
      claimed++;
    } else {
      span->pending_next = kept;
      kept = span;
      if (last_kept == nullptr) last_kept = span;
    }
    span = rest;
  }
  if (kept != nullptr) inbox_.push_chain(kept, last_kept);
  if (claimed > 0) ask_to_look();
  return claimed;
}

// Makes a cold span leave whose blocks are all free: no thread has a block to push on its lists.
// Touches no bin and no other span, because these belong to the owner, which may be running.
void Heap::claim(Span& span) {
  take_remote(span);
  reusable_.unfile(span);
  count_frees(span);
  set_count(span, span.shape().capacity, span.shape().capacity);
  leave(span);
}

Span* Heap::release_span(unsigned size_class, Heap& adopter) {
  return_spares(size_class, 0);
  if (reusable_.first(size_class) == nullptr && !bins[size_class].is_empty()) {
    cool_hot(size_class, count_hot_free(size_class));
  }
  Span* span = reusable_.first(size_class);
  if (span == nullptr && is_crowded(size_class)) span = reusable_.newest_spent(size_class);
  if (span == nullptr) span = find_reusable(size_class);
  if (adopter.home_only && (span == nullptr || span->node != adopter.node_)) return nullptr;
  if (span != nullptr && span->remote.change_owner(id_, adopter.id_)) {
    // Stored before this heap's lock is released: this heap's next thread must not own the span.
    span->owner.store(&adopter, kRelaxed);  // relaxed: that thread acquires the lock
    reusable_.unfile(*span);
    shrinking_.count_adopted();
    count_span(*span, -1);
    return span;
  }
  span = take_cached(size_class);
  if (span != nullptr) span->remote.open(adopter.id_, span->node, size_class);
  return span;
}

}  // namespace near

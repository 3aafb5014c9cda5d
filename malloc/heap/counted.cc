#include "heap/counted.h"

#include "heap/damage.h"
#include "heap/heap.h"

namespace near {

void Heap::begin_counting() {
  const LockGuard guard(lock);
  if (class_of_small.bins() != Bins::empty) return;  // the profiler has stopped
  return_all_ahead();
  for (BlockCountdown& each : until_sample) each.reset();
  class_of_small.lead_to(Bins::ahead);
}

// The profiler may stop meanwhile, and a handler may call malloc: the lock holds both off.
void Heap::fill_ahead(unsigned size_class) {
  const LockGuard guard(lock);
  FreeList& list = ahead(size_class);
  if (!list.is_empty()) {
    if (list.front()->distance() < kLinkReach) return;  // a handler has filled it
    record_damage({Flaw::overwritten, list.front()});
    list.set(FreeList::kNoSpan);
  }
  any_ahead_ = true;
  BlockCountdown& until = until_sample[size_class];
  const size_t most = min_of(until.left(), most_ahead(class_size(size_class)));
  until.take(bins[size_class].move_front(list, static_cast<uint32_t>(most)));
}

// If the list is damaged, its blocks count as held from now on.
void Heap::return_ahead(unsigned size_class) {
  FreeList& list = ahead(size_class);
  Block* first = list.front();
  if (first == nullptr) return;
  ListWalk walk(*hot_[size_class], list);
  Block* last = first;
  while (Block* block = walk.next()) last = block;
  list.set(FreeList::kNoSpan);
  if (unlikely(walk.damage().present())) return record_damage(walk.damage());
  bins[size_class].splice(first, last);
  until_sample[size_class].give_back(walk.count());
}

bool Heap::count_ahead(const Span& span, uint32_t& count) const {
  count = 0;
  if (!is_hot(span) || span.size_class >= kSmallClasses) return true;
  ListWalk walk(span, ahead(span.size_class));
  while (walk.next() != nullptr) continue;
  count = walk.count();
  return !walk.damage().present();
}

void Heap::return_all_ahead() {
  if (!any_ahead_) return;
  any_ahead_ = false;
  for (unsigned c = 0; c < kSmallClasses; c++) return_ahead(c);
}

}  // namespace near

#include "designs/super/global_cache.h"

namespace near::design::super {

constinit GlobalCache global_caches[kBins];

void GlobalCache::start(unsigned bin, BlockList* lists, List<Folio>* by_free) {
  const size_t full = div_up(settings.list_bytes, kSizes[bin]);
  lists_.start(lists, settings.global_lists, static_cast<uint32_t>(full));
  folios_.start(bin, by_free);
}

// Allocates what the request needs, or more at once: the difference between super0 and super1.
void GlobalCache::refill() {
  size_t wanted = 1;
  const size_t half_of_all = size_t{half()} * lists_.full();
  if (settings.fill == Fill::half) wanted = half_of_all;
  if (settings.fill == Fill::doubling) {
    wanted = min_of(next_fill_, half_of_all);
    next_fill_ = min_of(2 * next_fill_, half_of_all);
  }
  while (wanted > 0) {
    const auto count = static_cast<uint32_t>(min_of(wanted, lists_.full()));
    const BlockList list = folios_.take(count);
    if (list.empty() || !lists_.put(list)) break;
    wanted -= count;
    (settings.fill == Fill::one ? totals_.single : totals_.filled) += list.count;
  }
}

BlockList GlobalCache::take() {
  const Section section(lock_);
  totals_.accesses++;
  if (lists_.empty()) refill();
  return lists_.empty() ? BlockList() : lists_.take();
}

void GlobalCache::take(ListCache& into, unsigned most) {
  const Section section(lock_);
  totals_.accesses++;
  if (lists_.empty()) refill();
  for (; most > 0 && !lists_.empty(); most--) into.put(lists_.take_full());
}

bool GlobalCache::make_room() {
  if (!lists_.has_room() && settings.drain) drain(lists_.capacity() / 2);
  return lists_.has_room();
}

bool GlobalCache::put(const BlockList& list) {
  const Section section(lock_);
  totals_.accesses++;
  return make_room() && lists_.put(list);
}

void GlobalCache::put(ListCache& from, unsigned most) {
  const Section section(lock_);
  totals_.accesses++;
  for (; most > 0 && !from.empty() && make_room(); most--) lists_.put(from.take_full());
}

void GlobalCache::drain(unsigned down_to) {
  while (lists_.count() > down_to) {
    const BlockList list = lists_.take_full();
    totals_.drained += list.count;
    free_all(list);
  }
}

void GlobalCache::free_all(BlockList list) {
  while (!list.empty()) folios_.put(list.pop());
}

bool GlobalCache::free(void* block) {
  const Section section(lock_);
  totals_.accesses++;
  if (!folios_.put(block)) return false;
  totals_.freed++;
  return true;
}

void GlobalCache::free(const BlockList& list) {
  const Section section(lock_);
  totals_.accesses++;
  totals_.freed += list.count;
  free_all(list);
}

void GlobalCache::trim() {
  const Section section(lock_);
  while (!lists_.empty()) free_all(lists_.take());
  folios_.trim();
}

GlobalCache::Totals GlobalCache::totals() {
  const LockGuard guard(lock_);
  Totals now = totals_;
  now.cached = lists_.blocks();
  now.folios = folios_.totals();
  return now;
}

}  // namespace near::design::super

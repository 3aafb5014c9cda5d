#include "node/node.h"

#include <bit>

#include "base/assert.h"
#include "node/purge_signal.h"
#include "platform/clock.h"
#include "platform/options.h"
#include "platform/os.h"

namespace near {
namespace {

constexpr size_t kRunOfChunks = kChunkSlices;  // freed runs of at least a chunk are large runs
constexpr size_t kKeptOfLimit = 16;            // 1/16 of a process limit may be free and mapped

}  // namespace

constinit PurgeSignal purge_signal;

void Node::add(Region* region) {
  const LockGuard guard(lock);
  if (regions_ == nullptr) {
    regions_ = region;
  } else {
    last_region_->next = region;
  }
  last_region_ = region;
}

size_t Node::dirty_slices() const {
  size_t sum = 0;
  for (const Region* region = regions_; region != nullptr; region = region->next)
    sum += region->dirty_slices();
  return sum;
}

size_t Node::live_slices() const {
  size_t sum = 0;
  for (const Region* region = regions_; region != nullptr; region = region->next) {
    sum += (region->committed_bytes() >> kSliceShift) - region->free_slices();
  }
  return sum;
}

// --- taking ---

Span* Node::record_taken(Span* span, uint32_t slices, uint32_t clean, bool& zero) {
  zero = clean == slices;
  if (clean > 0) keeping_.count_clean(clean);
  return span;
}

Span* Node::take_from(Region& region, uint32_t slices, bool& zero, size_t alignment) {
  uint32_t clean = 0;
  Span* span = region.take(slices, clean, alignment);
  return span == nullptr ? nullptr : record_taken(span, slices, clean, zero);
}

// Makes a region grow as `plan(generous)` says, and then calls `use(growth)`; both with the lock
// held. Tries a generous plan first, then one for what is needed. Requires regions_lock.
template <typename Plan, typename Use>
Node::Grown Node::grow(Region& region, Plan plan, Use use) {
  for (bool generous = true;;) {
    Growth growth;
    {
      const LockGuard guard(lock);
      growth = plan(generous);
    }
    if (growth.missing > 0) {
      if (!region.extend_to(growth.missing, lock)) return Grown::no_room;
      continue;
    }
    if (growth.slices == 0) return Grown::no_room;
    os::Mapped mapped = region.map_growth(growth);
    const LockGuard guard(lock);
    // If other mappings are in the way of a generous plan, its chunks are not given up for that.
    if (mapped == os::Mapped::occupied && generous) mapped = os::Mapped::refused;
    region.end_growth(growth, mapped);
    if (mapped == os::Mapped::done) {
      use(growth);
      return Grown::yes;
    }
    if (mapped == os::Mapped::refused && !generous) return Grown::refused;
    generous = false;
  }
}

Span* Node::grow_and_take(Region& region, uint32_t slices, bool& zero, size_t alignment) {
  const uint32_t run = slices + static_cast<uint32_t>(alignment >> kSliceShift) - 1;
  Span* span = nullptr;
  grow(
      region, [&](bool generous) { return region.plan_growth(run, generous); },
      [&](const Growth& growth) {
        uint32_t clean = 0;
        span = region.take_grown(growth, slices, clean, alignment);
        record_taken(span, slices, clean, zero);
      });
  return span;
}

Span* Node::take_from_new(Region& region, uint32_t slices, bool& zero, size_t alignment) {
  return grow_and_take(region, slices, zero, alignment);
}

Span* Node::take(uint32_t slices, bool& zero, size_t alignment) {
  const auto take_mapped = [&]() -> Span* {
    const LockGuard guard(lock);
    Span* span = nullptr;
    for (Region* each = regions_; each != nullptr && span == nullptr; each = each->next) {
      span = take_from(*each, slices, zero, alignment);
    }
    return span;
  };
  if (Span* span = take_mapped()) return span;
  const LockGuard growing(regions_lock);
  Span* span = take_mapped();  // another thread may have made the node grow meanwhile
  for (Region* each = nullptr; span == nullptr && (each = region_after(each)) != nullptr;) {
    span = grow_and_take(*each, slices, zero, alignment);
  }
  return span;
}

bool Node::has_room(uint32_t slices) {
  const LockGuard growing(regions_lock);
  const LockGuard guard(lock);
  for (const Region* region = regions_; region != nullptr; region = region->next) {
    if (region->has_room(slices)) return true;
  }
  return false;
}

void Node::record_pages_purged(const Span& span) {
  const LockGuard guard(lock);
  span.region->record_pages_purged(span);
}

bool Node::has(const Region* region) const {
  const Region* each = regions_;
  while (each != nullptr && each != region) each = each->next;
  return each != nullptr;
}

bool Node::extend(Span* span, uint32_t slices) {
  Region& region = *span->region;
  {
    const LockGuard guard(lock);
    NEAR_ASSERT(has(&region));
    if (region.extend(span, slices)) return true;
    if (region.has_mapped_run(2 * (span->slices + slices))) return false;
  }
  const LockGuard growing(regions_lock);
  const auto plan = [&](bool) { return region.plan_extension(*span, slices); };
  const auto use = [&](const Growth&) { region.extend(span, slices); };
  return grow(region, plan, use) == Grown::yes;
}

void Node::give(Span* span, uint32_t keep) {
  bool look = false;
  const uint32_t given = span->slices - keep;
  {
    const LockGuard guard(lock);
    NEAR_ASSERT(has(span->region));
    look = keeping_.count_freed(given);
    if (look) now_ms_ = coarse_now_ms();
    span->region->give(span, keep, now_ms_);
    gives_.store(gives() + 1, kRelaxed);  // relaxed: changed under the lock
  }
  purge_signal.ask();
  if (look) look_at_limits();
  if (given >= kRunOfChunks && os::limit() != SIZE_MAX) {
    purge_until(0, os::limit() / kKeptOfLimit >> kSliceShift, true);
  }
}

void Node::keep(size_t bytes) {
  {
    const LockGuard guard(lock);
    keeping_.keep(bytes >> kSliceShift);
  }
  purge_signal.ask();  // if fewer bytes are kept than before, there is memory to purge
}

void Node::obey_limits() {
  {
    const LockGuard guard(lock);
    now_ms_ = coarse_now_ms();
  }
  look_at_limits();
}

// Gives memory back if more than the limit is dirty, or (in a process without a purge thread) if
// some is old enough.
void Node::look_at_limits() {
  size_t limit = 0;
  bool excess = false;
  bool decay = false;
  {
    const LockGuard guard(lock);
    limit = keeping_.look(now_ms_, live_slices());
    excess = dirty_slices() > limit;
    decay = keeping_.should_decay(now_ms_);
  }
  if (decay) purge(static_cast<uint32_t>(option(Option::decay_ms)), 0);
  if (!excess) return;
  const size_t keep = limit - limit / 16;
  const size_t bytes = purge_until(0, keep, true) + purge_until(0, keep, false);
  const LockGuard guard(lock);
  keeping_.count_purged(now_ms_, bytes >> kSliceShift);
}

// --- looking ---

// The region after `region`; the first one if that is null.
Region* Node::region_after(const Region* region) {
  const LockGuard guard(lock);
  return region == nullptr ? regions_ : region->next;
}

// False if the region has no such chunk.
bool Node::slices_in_use(const Region& region, uint32_t chunk, uint32_t& mask) {
  const LockGuard guard(lock);
  if (chunk >= region.chunks_end()) return false;
  mask = region.is_mapped(chunk) ? ~region.chunk(chunk).free : 0;
  return true;
}

size_t Node::dirty_bytes() {
  const LockGuard guard(lock);
  return (dirty_slices() - min_of(dirty_slices(), keeping_.kept())) << kSliceShift;
}

Node::Totals Node::totals() {
  const LockGuard guard(lock);
  Totals totals{};
  for (const Region* region = regions_; region != nullptr; region = region->next) {
    totals.reserved += region->owned_bytes();
    totals.committed += region->committed_bytes();
    totals.in_spans += region->committed_bytes() - (region->free_slices() << kSliceShift);
    totals.dirty += (region->dirty_slices() + region->stuck_slices()) << kSliceShift;
    totals.commit_calls += region->commit_calls();
  }
  totals.purged = purged_bytes_;
  totals.purge_calls = purge_calls_;
  return totals;
}

size_t Node::check() {
  const LockGuard guard(lock);
  size_t wrong = 0;
  for (const Region* region = regions_; region != nullptr; region = region->next)
    wrong += region->check();
  return wrong;
}

}  // namespace near

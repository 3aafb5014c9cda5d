#include "node/shard.h"

#include <bit>

#include "base/assert.h"
#include "node/events.h"
#include "node/mappings.h"
#include "node/node.h"
#include "node/purge_signal.h"
#include "platform/clock.h"
#include "platform/options.h"
#include "platform/os.h"

namespace near {
namespace {

constexpr size_t kRunOfChunks = kChunkSlices;  // freed runs of at least a chunk are large runs
constexpr size_t kLeastBound = 4 * kMiB >> kSliceShift;
constexpr size_t kKeptOfLimit = 16;  // 1/16 of a process limit may be free and mapped

// The option `dirty_mib`.
size_t bound_slices() {
  return static_cast<size_t>(option(Option::dirty_mib)) * kMiB >> kSliceShift;
}

}  // namespace

constinit PurgeSignal purge_signal;

void Shard::init(Node& node, unsigned number) {
  node_ = &node;
  number_ = number;
}

// This shard's part of the option `dirty_mib`: not so little that random sizes soon exceed it.
size_t Shard::bound() const {
  return min_of(bound_slices(), max_of(of_node(bound_slices()), kLeastBound));
}

// This shard's part of an amount for the whole node.
size_t Shard::of_node(size_t amount) const { return amount / node_->shard_count(); }

void Shard::add(Region* region) {
  const LockGuard guard(lock);
  if (regions_ == nullptr) {
    regions_ = region;
  } else {
    last_region_->next = region;
  }
  last_region_ = region;
  mapping_count.add(2);  // the region's table and descriptors
}

size_t Shard::dirty_slices() const {
  size_t sum = 0;
  for (const Region* region = regions_; region != nullptr; region = region->next)
    sum += region->dirty_slices();
  return sum;
}

size_t Shard::live_slices() const {
  size_t sum = 0;
  for (const Region* region = regions_; region != nullptr; region = region->next) {
    sum += (region->committed_bytes() >> kSliceShift) - region->free_slices();
  }
  return sum;
}

void Shard::update_spare(size_t dirty) {
  const size_t unneeded = min_of(lowest_dirty_, unneeded_);
  const size_t spare = max_of(unneeded, min_of(keeping_.kept(), dirty));
  // relaxed: a hint, changed under the lock
  if (spare != spare_.load(kRelaxed)) spare_.store(static_cast<uint32_t>(spare), kRelaxed);
}

void Shard::count_spare() {
  const LockGuard guard(lock);
  unneeded_ = lowest_dirty_;
  lowest_dirty_ = dirty_slices();
  update_spare(lowest_dirty_);
}

// --- taking ---

Span* Shard::record_taken(Span* span, uint32_t slices, uint32_t clean, bool& zero) {
  zero = clean == slices;
  const size_t dirty = dirty_slices();
  if (dirty < lowest_dirty_ || keeping_.kept() > 0) {
    lowest_dirty_ = min_of(lowest_dirty_, dirty);
    update_spare(dirty);
  }
  if (clean > 0) keeping_.count_clean(clean);
  return span;
}

Span* Shard::take_from(Region& region, const RunRequest& request, bool& zero) {
  uint32_t clean = 0;
  Span* span = region.take(request, clean);
  return span == nullptr ? nullptr : record_taken(span, request.slices, clean, zero);
}

// Makes a region grow as `plan(generous)` says, and then calls `use(growth)`; both with the lock
// held. Tries a generous plan first, then one for what is needed. Requires `growing`.
template <typename Plan, typename Use>
Shard::Grown Shard::grow(Region& region, Plan plan, Use use) {
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
    const size_t before = region.committed_bytes();
    os::Mapped mapped = region.map_growth(growth);
    {
      const LockGuard guard(lock);
      // If other mappings are in the way of a generous plan, its chunks are not given up for that.
      if (mapped == os::Mapped::occupied && generous) mapped = os::Mapped::refused;
      region.end_growth(growth, mapped);
      if (mapped == os::Mapped::done) use(growth);
    }
    if (mapped == os::Mapped::done) {
      record_event(EventKind::growth, node_->number(), node_->number(),
                   region.committed_bytes() - before);
      return Grown::yes;
    }
    if (mapped == os::Mapped::refused && !generous) return Grown::refused;
    generous = false;
  }
}

Span* Shard::grow_and_take(Region& region, const RunRequest& request, bool& zero, bool& refused) {
  Span* span = nullptr;
  const Grown grown = grow(
      region, [&](bool generous) { return region.plan_growth(request, generous); },
      [&](const Growth& growth) {
        uint32_t clean = 0;
        span = region.take_grown(growth, request, clean);
        record_taken(span, request.slices, clean, zero);
      });
  refused = grown == Grown::refused;
  return span;
}

Span* Shard::take_from_new(Region& region, const RunRequest& request, bool& zero) {
  const LockGuard growing_guard(growing);
  bool refused = false;
  return grow_and_take(region, request, zero, refused);
}

// Requires the lock.
Span* Shard::take_locked(const RunRequest& request, bool& zero) {
  Span* span = nullptr;
  for (Region* each = regions_; each != nullptr && span == nullptr; each = each->next) {
    span = take_from(*each, request, zero);
  }
  return span;
}

Span* Shard::take_mapped(const RunRequest& request, bool& zero) {
  const LockGuard guard(lock);
  return take_locked(request, zero);
}

Span* Shard::try_take_mapped(const RunRequest& request, bool& zero) {
  if (!lock.try_lock()) return nullptr;
  Span* span = take_locked(request, zero);
  lock.unlock();
  return span;
}

Span* Shard::take(const RunRequest& request, bool& zero, bool& refused) {
  if (Span* span = take_mapped(request, zero)) return span;
  const LockGuard growing_guard(growing);
  Span* span = take_mapped(request, zero);  // the shard may have grown meanwhile
  for (Region* each = nullptr; span == nullptr && (each = region_after(each)) != nullptr;) {
    span = grow_and_take(*each, request, zero, refused);
  }
  return span;
}

bool Shard::has_room(uint32_t slices) {
  const LockGuard windows(windows_lock);
  const LockGuard guard(lock);
  for (const Region* region = regions_; region != nullptr; region = region->next) {
    if (region->has_room(slices)) return true;
  }
  return false;
}

void Shard::record_pages_purged(const Span& span) {
  const LockGuard guard(lock);
  span.region->record_pages_purged(span);
}

bool Shard::has(const Region* region) const {
  const Region* each = regions_;
  while (each != nullptr && each != region) each = each->next;
  return each != nullptr;
}

bool Shard::extend(Span* span, uint32_t slices) {
  Region& region = *span->region;
  {
    const LockGuard guard(lock);
    NEAR_ASSERT(has(&region));
    const bool moves = span->slices >= kChunkSlices && region.is_moved(*span);
    if (moves && !region.is_one_mapping(*span, slices)) return false;
    if (region.extend(span, slices)) return true;
    if (moves || region.has_mapped_run(2 * (span->slices + slices))) return false;
  }
  const LockGuard growing_guard(growing);
  const auto plan = [&](bool) { return region.plan_extension(*span, slices); };
  const auto use = [&](const Growth&) { region.extend(span, slices); };
  return grow(region, plan, use) == Grown::yes;
}

Span* Shard::move(Span* span, const RunRequest& request, bool& moved) {
  moved = false;
  {
    const LockGuard guard(lock);
    if (keeping_.kept() > 0) return nullptr;  // populated memory does not move
  }
  const LockGuard growing_guard(growing);
  Region& region = *span->region;
  Span* to = nullptr;
  bool zero = false;
  const auto plan = [&](bool) { return region.plan_chunks(request); };
  const auto use = [&](const Growth& growth) {
    uint32_t clean = 0;
    to = region.take_grown(growth, request, clean);
    record_taken(to, request.slices, clean, zero);
    moved = region.can_move(*span);
  };
  if (grow(region, plan, use) != Grown::yes || !moved) return to;
  const Pages pages = region.pages_of_moved(request.dense);
  const Moved result = region.move_pages(*span, *to, pages);
  moved = result == Moved::yes;
  {
    const LockGuard guard(lock);
    if (moved) {
      region.end_move(*span, *to, pages, coarse_now_ms());
    } else if (result == Moved::unmapped) {
      region.leave(*to, to->slices);
    } else {
      region.give(to, 0, coarse_now_ms());
    }
    gives_.store(gives() + 1, kRelaxed);  // relaxed: changed under the lock
  }
  purge_signal.ask();
  return moved ? to : nullptr;
}

void Shard::give(Span* span, uint32_t keep) {
  bool look = false;
  const uint32_t given = span->slices - keep;
  {
    const LockGuard guard(lock);
    NEAR_ASSERT(has(span->region));
    if (given >= Keeping::kLargeRun) keeping_.expect_another(given, bound());
    look = keeping_.count_freed(given);
    if (look) now_ms_ = coarse_now_ms();
    span->region->give(span, keep, now_ms_);
    gives_.store(gives() + 1, kRelaxed);  // relaxed: changed under the lock
    if (keeping_.kept() > 0) update_spare(dirty_slices());
  }
  purge_signal.ask();
  if (look) look_at_limits();
  if (given >= kRunOfChunks && os::limit() != SIZE_MAX) {
    purge_until(0, of_node(os::limit() / kKeptOfLimit) >> kSliceShift, true);
  }
}

void Shard::keep(size_t bytes) {
  {
    const LockGuard guard(lock);
    keeping_.keep(bytes >> kSliceShift);
    update_spare(dirty_slices());
  }
  purge_signal.ask();  // if fewer bytes are kept than before, there is memory to purge
}

void Shard::obey_limits() {
  {
    const LockGuard guard(lock);
    now_ms_ = coarse_now_ms();
  }
  look_at_limits();
}

// Gives memory back if more than the limit is dirty, or (in a process without a purge thread) if
// some is old enough.
void Shard::look_at_limits() {
  size_t limit = 0;
  bool excess = false;
  bool decay = false;
  {
    const LockGuard guard(lock);
    limit = keeping_.look(now_ms_, live_slices(), bound());
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
Region* Shard::region_after(const Region* region) {
  const LockGuard guard(lock);
  return region == nullptr ? regions_ : region->next;
}

// False if the region has no such chunk.
bool Shard::copy_chunk(const Region& region, uint32_t index, Chunk& copy) {
  const LockGuard guard(lock);
  if (index >= region.chunks_end()) return false;
  copy = region.chunk(index);
  return true;
}

size_t Shard::dirty_bytes() {
  const LockGuard guard(lock);
  return (dirty_slices() - min_of(dirty_slices(), keeping_.kept())) << kSliceShift;
}

bool Shard::has_unused() {
  const LockGuard guard(lock);
  bool has = false;
  for (const Region* region = regions_; region != nullptr; region = region->next) {
    has |= region->has_unused();
  }
  return has;
}

Shard::Totals& Shard::Totals::operator+=(const Totals& other) {
  reserved += other.reserved;
  committed += other.committed;
  in_spans += other.in_spans;
  dirty += other.dirty;
  purged += other.purged;
  purge_calls += other.purge_calls;
  commit_calls += other.commit_calls;
  return *this;
}

Shard::Totals Shard::totals() {
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

size_t Shard::check() {
  const LockGuard guard(lock);
  size_t wrong = 0;
  for (const Region* region = regions_; region != nullptr; region = region->next)
    wrong += region->check();
  return wrong;
}

}  // namespace near

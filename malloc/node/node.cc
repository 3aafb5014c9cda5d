#include "node/node.h"

#include <bit>

#include "base/assert.h"
#include "node/purge_signal.h"
#include "platform/clock.h"
#include "platform/options.h"
#include "platform/os.h"

namespace near {
namespace {

constexpr size_t kLearnedMin = 128 * kKiB >> kSliceShift;
constexpr size_t kLargeRun = kMiB >> kSliceShift;
constexpr size_t kRunOfChunks = kChunkSlices;  // freed runs of at least a chunk are large runs
constexpr size_t kKeptOfLimit = 16;            // 1/16 of a process limit may be free and mapped
constexpr size_t kLikes = 8;         // a large block, or memory needed again, counts this often
constexpr uint32_t kDecaySteps = 8;  // decay runs this often in each decay_ms
constexpr size_t kLookEvery = 4;  // least number of slices freed between looks at clock and limits

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

// The option `dirty_mib`.
size_t Node::bound_slices() {
  return static_cast<size_t>(option(Option::dirty_mib)) * kMiB >> kSliceShift;
}

// The limit with a purge thread: 1.5 times the recent peak of live memory, or `dirty_mib` if that
// is more. Blocks that come and go then find memory that is still resident.
size_t Node::most_slices() const { return max_of(bound_slices(), peak_slices_ + peak_slices_ / 2); }

// Makes the peak follow live memory: it rises at once and falls by a quarter in each decay time.
// The learned limit falls likewise.
void Node::follow_peak(uint64_t now) {
  const auto decay_ms = static_cast<uint32_t>(option(Option::decay_ms));
  if (is_old(now, peak_ms_, decay_ms)) {
    peak_ms_ = now;
    peak_slices_ -= peak_slices_ / 4;
    learned_slices_ -= learned_slices_ / 4;
  }
  peak_slices_ = max_of(peak_slices_, live_slices() + unlooked_slices_);
}

size_t Node::limit_slices() const {
  const size_t most = most_slices();
  return purge_signal.present() ? most : min_of(most, max_of(learned_slices_, kLearnedMin));
}

// Called when a large block is freed. Assumes that the program will need blocks of this size again,
// several at a time: raises the learned limit to 8 of them, but at most to twice `dirty_mib`; only
// record_regret raises it further.
void Node::expect_another(size_t slices) {
  learned_slices_ = max_of(learned_slices_, min_of(kLikes * slices, 2 * bound_slices()));
}

// Memory that is not needed again within half a decay time was rightly given back: clears the
// credit.
void Node::forget_credit(uint64_t now) {
  const auto decay_ms = static_cast<uint32_t>(option(Option::decay_ms));
  if (is_old(now, credit_ms_, decay_ms / 2)) credit_slices_ = 0;
}

// Called when clean memory is taken soon after the limit made the node purge some: the limit was
// too low. When such regret reaches a quarter of the limit, the limit rises.
void Node::record_regret(uint32_t slices) {
  forget_credit(coarse_now_ms());
  const size_t regret = min_of(slices, credit_slices_);
  credit_slices_ -= regret;
  regret_slices_ += regret;
  const size_t limit = max_of(learned_slices_, kLearnedMin);
  if (regret_slices_ * 4 < limit) return;
  learned_slices_ = min_of(limit + kLikes * regret_slices_, most_slices());
  regret_slices_ = 0;
}

// --- taking ---

Span* Node::record_taken(Span* span, uint32_t slices, uint32_t clean, bool& zero) {
  zero = clean == slices;
  if (clean > 0 && credit_slices_ > 0) record_regret(clean);
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
    if (given >= kLargeRun) expect_another(given);
    unlooked_slices_ += given;
    look = unlooked_slices_ >= look_every_;
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
    kept_slices_ = bytes >> kSliceShift;
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
  const auto decay_ms = static_cast<uint32_t>(option(Option::decay_ms));
  size_t limit = 0;
  bool excess = false;
  bool decay = false;
  {
    const LockGuard guard(lock);
    const uint64_t now = now_ms_;
    follow_peak(now);
    unlooked_slices_ = 0;
    limit = limit_slices() + kept_slices_;
    look_every_ = max_of(kLookEvery, limit / 8);
    excess = dirty_slices() > limit;
    decay = !purge_signal.present() && is_old(now, last_decay_ms_, decay_ms / kDecaySteps);
    if (decay) last_decay_ms_ = now;
  }
  if (decay) purge(decay_ms, 0);
  if (!excess) return;
  const size_t keep = limit - limit / 16;
  const size_t bytes = purge_until(0, keep, true) + purge_until(0, keep, false);
  const LockGuard guard(lock);
  forget_credit(now_ms_);
  credit_slices_ += bytes >> kSliceShift;
  credit_ms_ = now_ms_;
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
  return (dirty_slices() - min_of(dirty_slices(), kept_slices_)) << kSliceShift;
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

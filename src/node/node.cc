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
constexpr size_t kLikes = 8;
constexpr uint32_t kDecaySteps = 8;  // decay runs this often in its time
constexpr size_t kLookEvery =
    4;  // slices given back between two looks at clock and limits, at least

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

// Half more than was live lately may be dirty, or `dirty_mib` if that is more: blocks that come and
// go are then found again.
size_t Node::most_slices() const { return max_of(bound_slices(), peak_slices_ + peak_slices_ / 2); }

// Follows live memory: up at once, down by a quarter in each decay time. What was learned falls as
// well.
void Node::follow_peak(uint32_t now) {
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

// A large block is given back: its like will be wanted again, a few of them at a time. Beyond twice
// `dirty_mib` only experience says so.
void Node::expect_another(size_t slices) {
  learned_slices_ = max_of(learned_slices_, min_of(kLikes * slices, 2 * bound_slices()));
}

// Memory that is wanted again only after half a decay time was rightly given back.
void Node::forget_credit(uint32_t now) {
  const auto decay_ms = static_cast<uint32_t>(option(Option::decay_ms));
  if (is_old(now, credit_ms_, decay_ms / 2)) credit_slices_ = 0;
}

// Clean memory is wanted while some was given back by the limit just now: the limit was too low.
void Node::note_regret(uint32_t slices) {
  forget_credit(coarse_now_ms());
  const size_t regret = min_of(slices, credit_slices_);
  credit_slices_ -= regret;
  regret_slices_ += regret;
  const size_t limit = max_of(learned_slices_, kLearnedMin);
  if (regret_slices_ * 4 < limit) return;
  learned_slices_ = min_of(limit + kLikes * regret_slices_, most_slices());
  regret_slices_ = 0;
}

Span* Node::take(uint32_t slices, bool& zero, size_t alignment) {
  const LockGuard guard(lock);
  for (Region* region = regions_; region != nullptr; region = region->next) {
    uint32_t clean = 0;
    Span* span = region->take(slices, clean, alignment);
    if (span == nullptr) continue;
    zero = clean == slices;
    if (clean > 0 && credit_slices_ > 0) note_regret(clean);
    return span;
  }
  return nullptr;
}

bool Node::has_room(uint32_t slices) {
  const LockGuard guard(lock);
  for (const Region* region = regions_; region != nullptr; region = region->next) {
    if (region->bytes() - region->committed_bytes() >= size_t{slices} << kSliceShift) return true;
  }
  return false;
}

void Node::note_pages_purged(const Span& span) {
  const LockGuard guard(lock);
  span.region->note_pages_purged(span);
}

bool Node::has(const Region* region) const {
  const Region* each = regions_;
  while (each != nullptr && each != region) each = each->next;
  return each != nullptr;
}

bool Node::extend(Span* span, uint32_t slices) {
  const LockGuard guard(lock);
  NEAR_ASSERT(has(span->region));
  return span->region->extend(span, slices);
}

void Node::give(Span* span, uint32_t keep) {
  bool look = false;
  {
    const LockGuard guard(lock);
    NEAR_ASSERT(has(span->region));
    const uint32_t given = span->slices - keep;
    if (given >= kLargeRun) expect_another(given);
    unlooked_slices_ += given;
    look = unlooked_slices_ >= look_every_;
    if (look) now_ms_ = coarse_now_ms();
    span->region->give(span, keep, now_ms_);
  }
  purge_signal.ask();
  if (look) look_at_limits();
}

// Gives memory back if there is too much of it, or (in a process without a purge thread) if some is
// old enough.
void Node::look_at_limits() {
  const auto decay_ms = static_cast<uint32_t>(option(Option::decay_ms));
  size_t limit = 0;
  bool excess = false;
  bool decay = false;
  {
    const LockGuard guard(lock);
    const uint32_t now = now_ms_;
    follow_peak(now);
    unlooked_slices_ = 0;
    limit = limit_slices();
    look_every_ = static_cast<uint32_t>(max_of(kLookEvery, limit / 8));
    excess = dirty_slices() > limit;
    decay = !purge_signal.present() && is_old(now, last_decay_ms_, decay_ms / kDecaySteps);
    if (decay) last_decay_ms_ = now;
  }
  if (decay) purge(decay_ms, 0);
  if (!excess) return;
  const size_t bytes = enforce(limit - limit / 16);
  const LockGuard guard(lock);
  forget_credit(now_ms_);
  credit_slices_ += bytes >> kSliceShift;
  credit_ms_ = now_ms_;
}

// --- giving memory back ---

size_t Node::purge_chunk(Region& region, uint32_t index) {
  uint32_t dirty = 0;
  uint32_t slices = 0;
  {
    const LockGuard guard(lock);
    dirty = region.chunk(index).dirty;
    if (dirty == 0) return 0;
    slices = region.withdraw_dirty(index);
  }
  char* start = region.chunk_start(index);
  bool purged = true;
  uint32_t calls = 0;
  for (uint32_t left = slices; left != 0; calls++) {
    const auto first = static_cast<unsigned>(std::countr_zero(left));
    const auto count = static_cast<unsigned>(std::countr_one(left >> first));
    left &= ~bit_run(first, count);
    purged &= os::purge(start + (size_t{first} << kSliceShift), size_t{count} << kSliceShift);
  }
  const size_t bytes = purged ? static_cast<size_t>(std::popcount(dirty)) << kSliceShift : 0;
  const LockGuard guard(lock);
  region.put_back(index, slices, purged ? 0 : dirty);
  purged_bytes_ += bytes;
  purge_calls_ += calls;
  return bytes;
}

// The region after `region`, the first after none.
Region* Node::region_after(const Region* region) {
  const LockGuard guard(lock);
  return region == nullptr ? regions_ : region->next;
}

// False if the region has no such chunk yet.
bool Node::slices_in_use(const Region& region, uint32_t chunk, uint32_t& mask) {
  const LockGuard guard(lock);
  if (chunk >= region.committed_bytes() >> kChunkShift) return false;
  mask = ~region.chunk(chunk).free;
  return true;
}

size_t Node::purge(uint32_t age_ms, size_t keep_bytes) {
  size_t purged = 0;
  const uint32_t now = coarse_now_ms();
  {
    const LockGuard guard(lock);
    if (is_old(now, now_ms_, 0)) now_ms_ = now;
  }
  for (Region* region = nullptr; (region = region_after(region)) != nullptr;) {
    for (uint32_t index = 0;; index++) {
      {
        const LockGuard guard(lock);
        if ((dirty_slices() << kSliceShift) <= keep_bytes) return purged;
        index = region->find_purgeable(index, now, age_ms);
      }
      if (index == kNoChunk) break;
      purged += purge_chunk(*region, index);
    }
  }
  return purged;
}

// Purges from the highest chunk down, whole chunks first, until at most `keep_slices` are dirty.
size_t Node::enforce(size_t keep_slices) {
  size_t purged = 0;
  for (const bool whole_only : {true, false}) {
    for (Region* region = nullptr; (region = region_after(region)) != nullptr;) {
      purged += purge_pass(*region, whole_only, keep_slices);
    }
  }
  return purged;
}

size_t Node::purge_pass(Region& region, bool whole_only, size_t keep_slices) {
  size_t purged = 0;
  uint32_t index = 0;
  {
    const LockGuard guard(lock);
    index = static_cast<uint32_t>(region.committed_bytes() >> kChunkShift);
  }
  while (index-- > 0) {
    {
      const LockGuard guard(lock);
      if (dirty_slices() <= keep_slices) return purged;
      const Chunk& chunk = region.chunk(index);
      if (chunk.dirty == 0 || (whole_only && chunk.bucket != kChunkSlices)) continue;
    }
    purged += purge_chunk(region, index);
  }
  return purged;
}

// --- looking ---

size_t Node::dirty_bytes() {
  const LockGuard guard(lock);
  return dirty_slices() << kSliceShift;
}

Node::Totals Node::totals() {
  const LockGuard guard(lock);
  Totals totals{};
  for (const Region* region = regions_; region != nullptr; region = region->next) {
    totals.reserved += region->bytes();
    totals.committed += region->committed_bytes();
    totals.in_spans += region->committed_bytes() - (region->free_slices() << kSliceShift);
    totals.dirty += region->dirty_slices() << kSliceShift;
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

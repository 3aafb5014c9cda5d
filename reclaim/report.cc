// What a domain reports: statistics and stalls.
// Thread-safety: any thread.
#include "nearmalloc/reclaim/impl/core.hpp"
#include "platform/clock.h"
#include "reclaim/process.h"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {
namespace {

// One record's share of `bound`, in units of hazard_limit: three bags of two limits each, or what
// expired from them, and one limit that waits to be freed.
constexpr uint64_t kLimitsOfRecord = 7;

}  // namespace

// relaxed in this file: counters for statistics, and hints
void Core::record_epoch(Record& by, uint64_t epoch) noexcept {
  if (by.row != nullptr) by.row->point(kind::epoch_change, timeline::now(), epoch);
  const uint64_t unreclaimed = garbage_.load(kRelaxed) + flights.counts.objects();
  epochs_.fetch_add(1, kRelaxed);
  sum_.fetch_add(unreclaimed, kRelaxed);
  uint64_t peak = peak_.load(kRelaxed);
  while (unreclaimed > peak &&
         !peak_.compare_exchange_weak(peak, unreclaimed, kRelaxed, kRelaxed)) {
  }
}

void Core::count_garbage(Record& record) noexcept {
  const uint64_t garbage = record.limbo.unreclaimed();
  garbage_.fetch_add(garbage - record.counted_garbage, kRelaxed);
  record.counted_garbage = garbage;
}

void Core::record_blocked(Record& by, Record& blocker, uint64_t state) noexcept {
  const uint64_t time = coarse_now_ms();
  if (by.blocker != &blocker || by.blocker_state != state) {
    by.blocker = &blocker;
    by.blocker_state = state;
    by.blocked_since = time;
    return;
  }
  if (!is_old(time, by.blocked_since, settings.stall_ms)) return;
  uint64_t reported = blocker.reported.load(kRelaxed);
  if (reported == state ||
      !blocker.reported.compare_exchange_strong(reported, state, kRelaxed, kRelaxed)) {
    return;
  }
  stalls_.fetch_add(1, kRelaxed);
  if (settings.on_stall == nullptr) return;
  const auto blocked_ms = static_cast<uint32_t>(time - by.blocked_since);
  settings.on_stall({blocker.owner.thread(), blocker.index, now(), blocked_ms}, settings.context);
}

uint64_t Core::bound() const noexcept {
  if (!has_slots()) return 0;
  return record_count_.load(kRelaxed) * kLimitsOfRecord * hazard_limit(*this);
}

statistics Core::collect() const noexcept {
  statistics sums;
  // pairs: records
  for (Record* record = records.load(kAcquire); record != nullptr; record = record->next) {
    const Limbo& limbo = record->limbo;
    // Reads freed first: what changes meanwhile makes the difference too large, never negative.
    sums.freed += limbo.freed();
    sums.lost += limbo.lost();
    sums.retired += limbo.retired();
    sums.unreclaimed_bytes += limbo.bytes();
    if (limbo.longest_run() > sums.longest_run) sums.longest_run = limbo.longest_run();
    sums.freeing_ns += record->freeing_ns.load(kRelaxed);
    if (record->attached.load(kRelaxed) == kAttached) sums.threads++;
    sums.records++;
  }
  const uint64_t lost_outside = lost_.load(kRelaxed);
  sums.lost += lost_outside;
  sums.retired += lost_outside + flights.counts.objects();
  sums.unreclaimed_bytes += flights.counts.bytes();
  const uint64_t gone = sums.freed + sums.lost;
  sums.unreclaimed = sums.retired > gone ? sums.retired - gone : 0;
  sums.epochs = epochs_.load(kRelaxed);
  sums.heavy_fences = heavy_fences();
  sums.looks = looks_.load(kRelaxed);
  sums.stalls = stalls_.load(kRelaxed);
  const uint64_t peak = peak_.load(kRelaxed);
  sums.peak_unreclaimed = peak > sums.unreclaimed ? peak : sums.unreclaimed;
  if (sums.epochs > 0) {
    sums.mean_unreclaimed =
        static_cast<double>(sum_.load(kRelaxed)) / static_cast<double>(sums.epochs);
  }
  sums.bound = bound();
  sums.over_limit = over_limit_.load(kRelaxed);
  return sums;
}

}  // namespace near::reclaim::impl

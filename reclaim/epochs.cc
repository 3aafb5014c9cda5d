// The slow half of DEBRA, sections and QSBR: entering a new epoch, looking at the other threads.
// Thread-safety: only the record's owner.
#include "nearmalloc/reclaim/impl/core.hpp"
#include "nearmalloc/reclaim/impl/quiescence.hpp"
#include "nearmalloc/reclaim/impl/section.hpp"
#include "reclaim/inside.h"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {
namespace {

void enter_epoch(Record& record) noexcept {
  Core& core = *record.core;
  record_garbage(record, record.epoch.seen);
  record.active_at.store(record.epoch.seen, kRelaxed);  // relaxed: a hint
  const size_t left = record.limbo.waiting();
  record.lock.enter(core.asymmetric);
  core.count_garbage(record);
  record.limbo.advance(record.epoch.seen, kEpochBags);
  record.lock.leave();
  if (core.has_sections()) expire_unheld(record);
  adapt_quota(record, left);
  core.adopt_left(record, false);
  if (core.traits.scheme == Scheme::ping) {
    record.look_at = 0;  // it was for the previous bag
    keep_bound(record, hazard_limit(core));
  }
  record.due = true;  // there may be something to free
}

// Repeats the announcement until no handler ran between it and the look at the epoch after it.
void settle_undisturbed(Record& record) noexcept {
  do {
    record.stay.begin();
    record.interrupted = false;
    settle(record.core->clock, record.epoch, record.core->has_asymmetric_fences());
    record.stay.settle_working();
  } while (record.interrupted);
}

}  // namespace

// Called after the announcement. `current`: the present epoch was announced, unless a handler
// replaced the announcement.
void epochs_pinned(Record& record, bool current) noexcept {
  expect_own(record);
  const bool frees_pinned = !record.core->traits.frees_quiescent;
  if (record.in_debt && frees_pinned && !record.working) {
    record.stay.begin();
    unannounce(record.epoch);
    pay_unpinned(record);
    current = false;
  }
  if (!current || record.interrupted) {
    const uint64_t before = record.epoch.seen;
    settle_undisturbed(record);
    const bool is_new = !current || record.epoch.seen != before;
    if (is_new) enter_epoch(record);
    record.stay.settle();
  }
  // Otherwise the next pin does it, before it announces.
  if (record.due && frees_pinned) work_of_own(record);
}

// Called before the announcement: freeing here blocks no other thread.
void epochs_before_pin(Record& record) noexcept {
  expect_own(record);
  const Inside inside(record);
  if (record.in_debt && !record.working) pay_unpinned(record);
  const uint64_t epoch = record.core->clock.epoch.load(kAcquire);  // pairs: epoch-clock
  if (epoch != record.epoch.seen) {
    record.epoch.seen = epoch;
    enter_epoch(record);
  }
  work_of_own(record);
}

// A handler that runs in between nests in the pin, which is in force all the time.
void begin_section(Record& record) noexcept {
  expect_own(record);
  const Inside inside(record);
  if (next_section(record.core->clock, record.epoch)) enter_epoch(record);
  // A debt is paid at the next pin: until then `due` stays.
  if (record.due && !record.in_debt) work_of_own(record);
}

// A handler that runs in between announces for itself.
void go_away(Record& record) noexcept {
  record.is_present = false;
  unannounce(record.epoch);
}

void come_back(Record& record) noexcept {
  settle_undisturbed(record);
  record.is_present = true;
  enter_epoch(record);
}

void report_slow(Record& record) noexcept {
  expect_own(record);
  if (record.working) return;
  if (!record.stay.is_outside()) fail_with("a thread reports a quiescent state while it is pinned");
  const Inside inside(record);
  if (record.in_debt) pay_unpinned(record);
  if (report_quiescent(record.core->clock, record.epoch)) enter_epoch(record);
  if (record.due) work_of_own(record);
}

bool scan_epochs(Record& record, uint32_t records) noexcept {
  Core& core = *record.core;
  for (uint32_t i = 0; i < records; i++) {
    switch (scan_step(core.clock, core.records, record.epoch, core.has_asymmetric_fences())) {
      case Scan::going:
        break;
      case Scan::blocked: {
        Record& blocker = *record.epoch.cursor;
        // relaxed: to recognise a stall
        core.record_blocked(record, blocker, blocker.epoch.announced.load(kRelaxed));
        return false;
      }
      case Scan::advanced:
        core.record_epoch(record, record.epoch.seen + 1);
        return true;
      case Scan::outdated:
        return true;
    }
  }
  return true;
}

void check_epochs(Record& record) noexcept {
  const options& settings = record.core->settings;
  if (record.limbo.held() < settings.batch_size) return;
  // A thread that waits for a report costs each look one load, as the scan stays at its record.
  const bool is_rare = record.core->has_reports();
  scan_epochs(record, is_rare ? UINT32_MAX : settings.records_per_check);
}

}  // namespace near::reclaim::impl

// DEBRA's slow half: entering a new epoch, and looking at the others.
// Who may touch it: the record's owner.
#include "nearmalloc/reclaim/impl/core.hpp"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {
namespace {

void enter_epoch(Record& record) noexcept {
  Core& core = *record.core;
  note_garbage(record, record.epoch.seen);
  adapt_quota(record);
  record.lock.enter(core.asymmetric);
  record.limbo.advance(record.epoch.seen, kEpochBags);
  record.lock.leave();
  core.adopt_parked(record);
  if (core.traits.scheme == Scheme::ping) {
    record.nesting++;  // guards of deleters nest in the pin that began
    keep_bound(record, hazard_limit(core));
    record.nesting--;
  }
  record.due = true;  // there may be something to free
}

}  // namespace

// The announcement is out; `current`: it is that of the present epoch.
void epochs_pinned(Record& record, bool current) noexcept {
  if (!current) {
    settle(record.core->clock, record.epoch, record.core->asymmetric);
    enter_epoch(record);
    if (record.core->traits.frees_quiescent) return;  // at the next pin, before it announces
  }
  if (record.due && !record.core->traits.frees_quiescent) work(record);
}

// Nothing is announced yet: what is freed here holds nobody up.
void epochs_before_pin(Record& record) noexcept {
  const uint64_t epoch = record.core->clock.epoch.load(kAcquire);  // pairs: epoch-clock
  if (epoch != record.epoch.seen) {
    record.epoch.seen = epoch;
    enter_epoch(record);
  }
  work(record);
}

void check_epochs(Record& record) noexcept {
  Core& core = *record.core;
  if (record.limbo.held() < core.settings.batch_size) return;
  for (uint32_t i = 0; i < core.settings.records_per_check; i++) {
    switch (scan_step(core.clock, core.records, record.epoch, core.asymmetric)) {
      case Scan::going:
        break;
      case Scan::blocked: {
        Record& blocker = *record.epoch.cursor;
        // relaxed: to recognise a stall
        core.note_blocked(record, blocker, blocker.epoch.announced.load(kRelaxed));
        return;
      }
      case Scan::advanced:
        core.note_epoch(record, record.epoch.seen + 1);
        return;
      case Scan::outdated:
        return;
    }
  }
}

}  // namespace near::reclaim::impl

// Reads the hazards: for hazard_pointers whenever enough was retired, for ping_epochs when some
// thread keeps the epoch from moving, for checkpoints when a bag has aged.
//
// Invariant: after a look at n slots in use, at most n objects stay in the bags; under checkpoints,
// in what has aged.
// Thread-safety: only the record's owner.
#include <algorithm>
#include <functional>
#include <iterator>

#include "nearmalloc/reclaim/impl/core.hpp"
#include "reclaim/inside.h"
#include "reclaim/process.h"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {
namespace {

constexpr size_t kRoom = 1024;  // slots that are sorted; more are searched one by one

size_t slots_in_use(const Core& core) noexcept {
  size_t slots = 0;
  // pairs: records
  for (Record* record = core.records.load(kAcquire); record != nullptr; record = record->next) {
    slots += record->hazards.used.load(kRelaxed);  // relaxed: grows only; an estimate
  }
  // pairs: records
  for (LooseSlot* slot = core.loose_slots.load(kAcquire); slot != nullptr; slot = slot->next) {
    slots++;
  }
  return slots;
}

template <class F>
void collect_all(const Core& core, F f) noexcept {
  collect_hazards(core.records, f);
  collect_loose(core.loose_slots, f);
}

bool is_in_a_slot(const Core& core, const void* object) noexcept {
  bool found = false;
  collect_all(core, [&](const void* held) { found = found || held == object; });
  return found;
}

// What slots hold. An object may be retired several times with the same deleter, which counts its
// references down; any of these stands for another. So a slot keeps one of them, not all.
class Held {
 public:
  explicit Held(const Core& core) noexcept {
    collect_all(core, [&](const void* object) {
      if (count_ < kRoom) slots_[count_] = {object, nullptr};
      count_++;
    });
    if (fits()) std::sort(slots_, slots_ + count_, precedes);
  }

  bool fits() const noexcept { return count_ <= kRoom; }
  bool is_empty() const noexcept { return count_ == 0; }

  // Requires that it fits. Called once for each retirement.
  bool keep(const Entry& entry) noexcept {
    const auto [first, last] =
        std::equal_range(slots_, slots_ + count_, Slot{entry.object, nullptr}, precedes);
    bool is_mixed = false;
    for (Slot* slot = first; slot != last; slot++) {
      if (slot->kept == nullptr) {
        slot->kept = entry.destroy;
        return true;
      }
      is_mixed = is_mixed || slot->kept != entry.destroy;
    }
    return is_mixed;  // with different deleters, none stands for another
  }

 private:
  struct Slot {
    const void* object;
    deleter kept;  // the deleter of a retirement that the slot keeps
  };
  static bool precedes(const Slot& a, const Slot& b) noexcept {
    return std::less<>()(a.object, b.object);
  }

  Slot slots_[kRoom];
  size_t count_ = 0;
};

bool stays(Held& held, const Core& core, const EntryBlock& block, uint32_t i) noexcept {
  const Entry& entry = block.entries[i];
  return held.fits() ? held.keep(entry) : is_in_a_slot(core, entry.object);
}

// True: at most one object stays for each slot.
bool look_at_hazards(Record& record) noexcept {
  Core& core = *record.core;
  core.record_look();
  heavy_fence(core.asymmetric);
  Held held(core);
  record.lock.enter(core.asymmetric);
  core.count_garbage(record);
  record.limbo.sift(
      [&](const EntryBlock& block, uint32_t i) { return stays(held, core, block, i); });
  record.lock.leave();
  return held.fits();
}

}  // namespace

// The slots are read after the epoch was acquired in which the objects aged.
void expire_unheld(Record& record) noexcept {
  if (record.limbo.aged() == 0) return;
  Core& core = *record.core;
  core.record_look();
  Held held(core);
  record.lock.enter(core.asymmetric);
  if (held.is_empty()) {
    record.limbo.expire_aged();
  } else {
    record.limbo.sift_aged(
        [&](const EntryBlock& block, uint32_t i) { return stays(held, core, block, i); });
  }
  record.lock.leave();
}

void look(Record& record) noexcept {
  switch (record.core->traits.scheme) {
    case Scheme::intervals:
      return look_at_intervals(record);
    case Scheme::batches:
      return look_at_batches(record);
    default:
      look_at_hazards(record);
  }
}

size_t hazard_limit(const Core& core) noexcept {
  return std::max(core.settings.batch_size, 2 * slots_in_use(core) + EntryBlock::kEntries + 1);
}

void keep_bound(Record& record, size_t limit) noexcept {
  if (record.working) return;
  record.working = true;
  while (record.limbo.waiting() > limit) {
    record.limbo.record_run(free_now(record, record.limbo.waiting() - limit));
  }
  record.working = false;
}

namespace {

void reclaim_by_slots(Record& record, size_t limit) noexcept {
  Core& core = *record.core;
  const size_t left = record.limbo.waiting();
  core.adopt_left(record, true);
  const bool is_exact = look_at_hazards(record);
  if (is_exact && record.limbo.held() > hazard_limit(core)) {
    fail_with("more objects are held than there are slots: the bound of garbage does not hold");
  }
  adapt_quota(record, left);
  keep_bound(record, limit);
  record.due = true;  // the rest is freed as the policy says, from the next pin on
}

void retired_under_hazards(Record& record, size_t limit) noexcept {
  if (record.limbo.current() >= limit) {
    reclaim_by_slots(record, limit);
    record.core->record_epoch(record, 0);
    record.active_at.store(record.core->now(), kRelaxed);  // relaxed: a hint
  }
  record.look_at = std::max(limit, record.limbo.current() + limit / 2);
}

// Scans began when the bag held a batch. At one and a half limits this does a whole scan: if some
// thread is still in an older epoch, it has been there for half a limit of retirements, and the
// slots are read. They are also read at two limits, as this operation may itself hold the epoch.
void retired_under_epochs(Record& record, size_t limit) noexcept {
  const size_t patience = limit + limit / 2;
  const size_t objects = record.limbo.current();
  if (objects >= 2 * limit || (objects >= patience && !scan_epochs(record, UINT32_MAX))) {
    reclaim_by_slots(record, limit);
  }
  const size_t left = record.limbo.current();
  record.look_at = left < patience ? patience : std::max(2 * limit, left + limit / 2);
}

}  // namespace

void hazards_retired(Record& record) noexcept {
  expect_own(record);
  record.core->wake_reclaimer();
  const Inside inside(record);
  const Scheme scheme = record.core->traits.scheme;
  if (scheme == Scheme::intervals) return intervals_retired(record);
  if (scheme == Scheme::batches) return look_and_free(record);
  const size_t limit = hazard_limit(*record.core);
  if (scheme == Scheme::hazards) {
    retired_under_hazards(record, limit);
  } else {
    retired_under_epochs(record, limit);
  }
}

}  // namespace near::reclaim::impl

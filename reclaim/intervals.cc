// Looks at reservations, for ibr: whenever enough was retired.
//
// Invariant: after a look, what stays in the bags lived in a thread's reservation.
// Thread-safety: only the record's owner.
#include <pthread.h>

#include <algorithm>

#include "nearmalloc/reclaim/born.hpp"
#include "nearmalloc/reclaim/impl/core.hpp"
#include "reclaim/inside.h"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {

constinit EraClock eras;

namespace {

pthread_once_t clock_once = PTHREAD_ONCE_INIT;
bool are_asymmetric = false;  // guard: clock_once

struct Reservation {
  uint64_t lower;
  uint64_t upper;
};

// The reservations of all threads, sorted so that one search answers whether any holds an object.
class Reservations {
 public:
  explicit Reservations(const Core& core) noexcept {
    collect_intervals(core.records, [&](uint64_t lower, uint64_t upper) { add(lower, upper); });
    std::sort(all_, all_ + count_,
              [](const Reservation& a, const Reservation& b) { return a.lower < b.lower; });
    for (size_t i = 1; i < count_; i++) all_[i].upper = std::max(all_[i].upper, all_[i - 1].upper);
  }

  // Among the reservations that begin early enough, the last one has the latest end of all.
  bool hold(const Life& life) const noexcept {
    const Reservation* const end =
        std::upper_bound(all_, all_ + count_, life, [](const Life& each, const Reservation& other) {
          return !holds(other.lower, UINT64_MAX, each);
        });
    return end != all_ && holds((end - 1)->lower, (end - 1)->upper, life);
  }

 private:
  static constexpr size_t kRoom = 512;

  // Beyond the room, one reservation that covers two takes their place.
  void add(uint64_t lower, uint64_t upper) noexcept {
    if (count_ < kRoom) {
      all_[count_++] = {lower, upper};
      return;
    }
    Reservation& last = all_[kRoom - 1];
    last = {std::min(last.lower, lower), std::max(last.upper, upper)};
  }

  Reservation all_[kRoom];
  size_t count_ = 0;
};

}  // namespace

// The era belongs to the process: another domain may have light fences where this one has none.
// If membarrier is refused later, heavy_fence waits instead, as for the domains made before.
bool eras_are_asymmetric() noexcept {
  pthread_once(&clock_once, [] { are_asymmetric = membarrier_works(); });
  return are_asymmetric;
}

void begin_process_era() noexcept { begin_era(eras, eras_are_asymmetric()); }

void look_at_intervals(Record& record) noexcept {
  Core& core = *record.core;
  core.record_look();
  begin_process_era();
  const Reservations reservations(core);
  record.lock.enter(core.asymmetric);
  core.count_garbage(record);
  record.limbo.sift(
      [&](EntryBlock& block, uint32_t i) { return reservations.hold(Limbo::life_of(block, i)); });
  record.lock.leave();
}

// What is held may be much: the next look comes when that has grown by half, so that a retirement
// costs three visits of an object at most, on average.
void look_and_free(Record& record) noexcept {
  Core& core = *record.core;
  const size_t limit = eras_limit(core);
  const size_t left = record.limbo.waiting();
  core.adopt_left(record, true);
  look(record);
  if (record.limbo.waiting() > left) adapt_quota(record, left);
  core.record_epoch(record, 0);
  record.active_at.store(core.now(), kRelaxed);  // relaxed: a hint
  keep_bound(record, limit);
  record.due = true;  // the rest is freed as the policy says, from the next pin on
  record.look_is_due = false;
  const size_t held = record.limbo.current();
  record.look_at = std::max(limit, held + held / 2);
}

// The thread's own reservation holds what it retired last: a look waits for the next pin, unless
// this one retires another batch.
void intervals_retired(Record& record) noexcept {
  if (record.look_is_due) return look_and_free(record);
  const size_t limit = eras_limit(*record.core);
  record.look_is_due = record.due = record.limbo.current() >= limit;
  record.look_at = record.look_is_due ? record.look_at + limit : limit;
}

// Called before the reservation: here the thread itself holds nothing.
void intervals_before_pin(Record& record) noexcept {
  expect_own(record);
  const Inside inside(record);
  if (record.in_debt && !record.working) pay_unpinned(record);
  if (record.look_is_due && !record.working) look_and_free(record);
  work_of_own(record);
}

}  // namespace near::reclaim::impl

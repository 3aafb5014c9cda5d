// The limit of bytes that are retired and not freed: options::max_unreclaimed_bytes.
// docs/reclamation-bound.md proves what follows from this.
//
// Invariant: limit = reserve + the sum, over all records, of credit and of the bytes in the limbo.
// `retire` takes an object's bytes from the credit of its thread, freeing adds them to that of the
// thread that frees. So what is unreclaimed exceeds the limit by no more than the debts of threads,
// which are their negative credits.
// Thread-safety: credit and what is promised of it are guarded by the record's lock; the reserve is
// an atomic amount.
#include <algorithm>
#include <utility>

#include "nearmalloc/reclaim/impl/core.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"
#include "reclaim/away.h"
#include "reclaim/inside.h"
#include "reclaim/patience.h"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {
namespace {

constexpr int kTries = 8;

}  // namespace

// What a thread takes at a time: idle credit of all threads is at most half of the limit, as soon
// as each has freed since the last one came (return_surplus).
int64_t Core::credit_share() const noexcept {
  const auto limit = static_cast<int64_t>(settings.max_unreclaimed_bytes);
  const int64_t number = record_count_.load(kRelaxed);  // relaxed: a number
  return std::max<int64_t>(limit / (4 * number), 1);
}

// `bytes` of it, if any, are promised: to end that, the caller calls `keep_promise`.
bool Core::take_credit(Record& record, int64_t bytes) noexcept {
  record.lock.enter(asymmetric);
  const int64_t needed = bytes > 0 ? record.limbo.promised + bytes : 0;
  const int64_t missing = needed - record.limbo.credit;
  int64_t taken = 0;
  int64_t reserve = reserve_.load(kRelaxed);  // relaxed: an amount, which orders nothing
  while (missing > 0 && reserve >= missing && taken == 0) {
    const int64_t wanted = std::min(reserve, std::max(missing, credit_share()));
    // relaxed: an amount
    if (reserve_.compare_exchange_weak(reserve, reserve - wanted, kRelaxed, kRelaxed)) {
      taken = wanted;
    }
  }
  record.limbo.credit += taken;
  const bool done = taken >= missing;
  if (done) record.limbo.promised += bytes;
  record.lock.leave();
  return done;
}

// A retirement for which `bytes` were promised has taken them from the credit.
void Core::keep_promise(Record& record, int64_t bytes) noexcept {
  record.lock.enter(asymmetric);
  record.limbo.promised -= bytes;
  record.lock.leave();
}

bool Core::is_reserve_low() const noexcept {
  const auto limit = static_cast<int64_t>(settings.max_unreclaimed_bytes);
  return reserve_.load(kRelaxed) < limit / 2;  // relaxed: a hint
}

void Core::return_surplus(Record& record) noexcept {
  const int64_t share = credit_share() + record.limbo.promised;
  if (record.limbo.credit <= 2 * share) return;
  reserve_.fetch_add(record.limbo.credit - share, kRelaxed);  // relaxed: an amount
  record.limbo.credit = share;
}

// Also a debt: the thread that leaves cannot pay it.
void Core::return_all_credit(Record& record) noexcept {
  if (!is_limited()) return;
  reserve_.fetch_add(std::exchange(record.limbo.credit, 0), kRelaxed);  // relaxed: an amount
}

// Takes credit, and what was retired: all of it, or what is safe. A debt stays with its thread,
// which could retire for ever while this one pays.
void Core::collect_from(Record& record, Record& me, bool all) noexcept {
  // If not attached, what it left is marked, and adopt_parked takes it. pairs: attached
  if (record.attached.load(kAcquire) != kAttached) return;
  me.lock.enter(asymmetric);
  const int64_t spare = record.limbo.credit - record.limbo.promised;
  if (is_limited() && spare > 0) {
    me.limbo.credit += spare;
    record.limbo.credit -= spare;
  }
  if (all) {
    record.limbo.give_all_held(me.limbo);
  } else if (traits.scheme == Scheme::token) {
    record.limbo.give_safe(0, 0, me.limbo);  // only its owner knows when the rest is safe
  } else {
    record.limbo.give_safe(now(), kEpochBags, me.limbo);
  }
  count_garbage(record);
  count_garbage(me);
  me.lock.leave();
}

// As adopt_idle, for all threads. An owner that is retiring or freeing is skipped, not waited for.
// Does nothing while another thread adopts or has a barrier.
void Core::collect_from_others(Record& me, bool all) noexcept {
  if (pthread_mutex_trylock(&barrier_) != 0) return;
  if (parked_.load(kRelaxed) > 0) adopt_parked(me, all);  // relaxed: a hint
  Record* const first = records.load(kAcquire);           // pairs: records
  for (Record* record = first; record != nullptr; record = record->next) {
    // relaxed: looked at again
    if (record != &me && record->attached.load(kRelaxed) == kAttached) record->lock.begin_claim();
  }
  heavy_fence(asymmetric);
  for (Record* record = first; record != nullptr; record = record->next) {
    if (record == &me || !record->lock.was_claimed()) continue;
    if (!record->lock.is_owner_inside()) collect_from(*record, me, all);
    record->lock.release();
  }
  pthread_mutex_unlock(&barrier_);
}

// The thread may be pinned. Under robust schemes, everything that no slot or reservation holds is
// freed, except what threads are just retiring or freeing; else what is safe at the present epoch.
bool Core::reclaim_for(Record& me, int64_t bytes) noexcept {
  const Inside inside(me);
  me.working = true;
  collect_from_others(me, is_robust());
  if (is_robust()) look(me);
  if (has_epochs() && !is_robust()) scan_epochs(me, UINT32_MAX);
  if (has_sections()) expire_unheld(me);
  free_now(me, SIZE_MAX);
  me.working = false;
  return take_credit(me, bytes);
}

void Core::wait_for_credit(Record& me) noexcept {
  Patience patience;
  while (!reclaim_for(me, 0)) {
    if (has_eras()) let_go(me);  // a handler's reservation holds objects
    patience.wait();
  }
}

// Whether the calling thread is pinned through another record; under QSBR, whether it may hold a
// pointer through one.
bool Core::waits_for_itself(const Record& me) const noexcept {
  bool waits = false;
  for_each_own(*this, [&](const Record& record) {
    if (&record != &me && (has_reports() || !record.stay.is_outside())) waits = true;
  });
  return waits;
}

// Everything that was retired before a grace period began is freed after it, as in a barrier.
void Core::wait_unpinned(Record& me) noexcept {
  if (take_credit(me, 0) || waits_for_itself(me)) return;
  if (has_eras()) return wait_for_credit(me);
  me.working = true;
  Patience patience;
  for (;;) {
    collect_from_others(me, true);
    {
      const Away away(*this, me);
      wait_for_grace(me);
    }
    me.lock.enter(asymmetric);
    me.limbo.expire_all();
    me.lock.leave();
    if (has_sections()) expire_unheld(me);
    free_now(me, SIZE_MAX);
    if (take_credit(me, 0)) break;
    const Away away(*this, me);
    patience.wait();
  }
  me.working = false;
}

void pay_debt(Record& record) noexcept {
  Core& core = *record.core;
  if (core.take_credit(record, 0)) {
    // So that a reader that stalls keeps little of what is retired before the next look.
    if (core.has_eras()) begin_process_era();
    if (core.is_reserve_low()) core.wake_reclaimer();
    return;
  }
  expect_own(record);
  if (!record.working) {
    // Another thread may be reclaiming or retiring at this moment, and then be done.
    const int tries = core.has_slots() ? kTries : 1;
    for (int i = 0; i < tries; i++) {
      if (core.reclaim_for(record, 0)) return;
      yield();
    }
    const bool blocks = core.settings.when_full == at_limit::block;
    if (blocks && core.has_slots()) return core.wait_for_credit(record);
    if (blocks) {
      record.in_debt = record.due = true;
      record.token.countdown = record.token.interval = 1;
    }
  }
  core.record_over_limit();
}

Promise::Promise(Record& record, size_t bytes) noexcept
    : record_(record), bytes_(static_cast<int64_t>(std::min<size_t>(bytes, UINT32_MAX))) {
  Core& core = *record.core;
  given_ =
      core.take_credit(record, bytes_) || (!record.working && core.reclaim_for(record, bytes_));
}

Promise::~Promise() {
  if (given_) record_.core->keep_promise(record_, bytes_);
}

void pay_unpinned(Record& record) noexcept {
  record.in_debt = false;
  record.core->wait_unpinned(record);
}

// A handler that interrupts the wait announces for itself.
void pay_under_token(Record& record) noexcept {
  record.stay.begin();
  deactivate(record.token);
  pay_unpinned(record);
  record.stay.settle();
  activate(record.token, record.core->asymmetric);
}

}  // namespace near::reclaim::impl

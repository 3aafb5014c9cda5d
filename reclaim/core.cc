#include "nearmalloc/reclaim/impl/core.hpp"

#include <cstdlib>
#include <new>

#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"
#include "reclaim/inside.h"
#include "reclaim/process.h"
#include "reclaim/reclaimer_word.h"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {
namespace {

bool pays_off(const options& settings, const Traits& traits) noexcept {
  const bool has_debra_scans = traits.scheme == Scheme::epochs || traits.scheme == Scheme::sections;
  const bool is_hasty = has_debra_scans && settings.batch_size == 0;
  const bool is_refused = has_eras(traits.scheme) && !eras_are_asymmetric();
  return settings.asymmetric && !is_hasty && !is_refused;
}

}  // namespace

Core::Core(const options& its_settings, const Traits& its_traits, const FreeRun& its_run) noexcept
    : settings(its_settings),
      traits(its_traits),
      run(its_run),
      asymmetric(pays_off(its_settings, its_traits) && membarrier_works()),
      serial(new_serial()),
      reserve_(static_cast<int64_t>(its_settings.max_unreclaimed_bytes)) {
  if (settings.operations_between_checks == 0 || settings.records_per_check == 0 ||
      settings.reclaim.every == 0 || settings.reclaim.objects == 0) {
    fail_with("options: a number of operations, records or objects is 0");
  }
  enlist(*this);
}

Core::~Core() {
  // From here on, threads that end no longer touch their records.
  expect_unused(delist(*this));
  if (traits.scheme == Scheme::batches) land_all();
  // Deleters may retire to this domain: repeat until there is nothing left.
  for (bool more = true; more;) {
    more = false;
    // pairs: records
    for (Record* record = records.load(kAcquire); record != nullptr; record = record->next) {
      record->working = true;
      record->limbo.expire_all();
      record->limbo.expire_aged();
      more = free_now(*record, SIZE_MAX) > 0 || more;
    }
  }
  for (Record* record = records.load(kAcquire); record != nullptr;) {  // pairs: records
    Record* next = record->next;
    record->limbo.free_spares();
    record->~Record();
    std::free(record);
    record = next;
  }
}

// Called when the domain ends; `threads`: how many used it without a handle and still live.
void Core::expect_unused(uint32_t threads) const noexcept {
  uint32_t attached = 0;
  // pairs: records
  for (const Record* record = records.load(kAcquire); record != nullptr; record = record->next) {
    if (record->stay.guards() > 0) fail_with("a domain ends while a thread is pinned");
    attached += record->attached.load(kRelaxed) != kFree ? 1 : 0;  // relaxed: none comes or goes
  }
  if (attached > threads) fail_with("a domain ends before a handle of it");
}

// Changes the state of a record that no thread uses. True: this thread now has the record.
bool Core::take(Record& record, uint32_t from, uint32_t to) noexcept {
  // relaxed: only a hint, the exchange decides
  return record.attached.load(kRelaxed) == from &&
         record.attached.compare_exchange_strong(from, to, kAcquire, kRelaxed);  // pairs: attached
}

// Returns the record's state before, or kClaimed if the record was unavailable.
uint32_t Core::claim_parked(Record& record) noexcept {
  if (take(record, kFree, kClaimed)) return kFree;
  return take(record, kOffline, kClaimed) ? kOffline : kClaimed;
}

// Returns a record that a thread left, with its contents. Null: there is none.
Record* Core::reuse() noexcept {
  Record* record = records.load(kAcquire);  // pairs: records
  while (record != nullptr && !take(*record, kFree, kAttached)) record = record->next;
  return record;
}

// Null: no memory, or no number that fits into the token's word.
Record* Core::make_record() noexcept {
  void* room = nullptr;
  if (posix_memalign(&room, alignof(Record), sizeof(Record)) != 0) return nullptr;
  const uint32_t index = record_count_.fetch_add(1, kRelaxed);  // relaxed: a number
  if (index > TokenRing::kIndexMask) {
    record_count_.fetch_sub(1, kRelaxed);  // relaxed: the same
    std::free(room);
    return nullptr;
  }
  auto* const record = new (room) Record(*this, index);
  if (!is_limited()) record->limbo.credit = kNoLimit;
  record->limbo.is_dated = has_eras();
  record->limbo.ages = has_sections();
  record->limbo.memory = &settings.memory;
  if (traits.scheme == Scheme::token) {
    record->limbo.advance(record->token.passes, kTokenBags);
  } else {
    record->limbo.advance(record->epoch.seen, kEpochBags);
  }
  add_record(records, *record);
  return record;
}

Record* Core::attach() noexcept {
  Record* record = reuse();
  if (record == nullptr) record = make_record();
  if (record == nullptr) return nullptr;
  record->quota = settings.reclaim.objects;
  record->turns = 0;
  record->in_debt = false;
  unpark(*record);
  return record;
}

void Core::detach(Record& record) noexcept {
  if (record.is_offline) fail_with("a handle ends inside its offline_scope");
  park(record, kFree);
}

void Core::go_offline(Record& record) noexcept {
  expect_own(record);
  park(record, kOffline);
}

void Core::come_online(Record& record) noexcept {
  while (!take(record, kOffline, kAttached)) yield();  // another thread is taking from it
  unpark(record);
}

void Core::unpark(Record& record) noexcept {
  if (record.has_left) parked_.fetch_sub(1, kRelaxed);  // relaxed: a hint how many there are
  record.has_left = false;
  record.owner.set(own_thread());
  record.user = this_user();
  record.active_at.store(now(), kRelaxed);  // relaxed: a hint
  record.row = settings.record_to != nullptr ? settings.record_to->join(nullptr) : nullptr;
  record.token.countdown = record.token.interval = 1;
  record.due = true;
  // From here on each pass includes this thread, or this thread sees whatever was unlinked before.
  if (traits.scheme == Scheme::token) heavy_fence(asymmetric);
  record.is_offline = false;
  if (has_reports()) come_back(record);
  record.stay.end();
  let_go(record);
}

void Core::park(Record& record, uint32_t state) noexcept {
  if (record.stay.guards() > 0) fail_with("a thread leaves a domain while it is pinned");
  record.stay.begin();
  record.hazards.clear_all();
  if (record.row != nullptr) record.row->leave();
  if (traits.scheme == Scheme::token) {
    heavy_fence(asymmetric);  // the round read below is no older than what was unlinked
    if (const auto word = ring.at(record.index)) ring.pass(records, record, *word, asymmetric);
  }
  record.lock.enter(asymmetric);
  count_garbage(record);
  record.parked_at = now();
  return_all_credit(record);
  record.has_left = record.limbo.held() + record.limbo.waiting() > 0;
  if (!record.has_left) record.limbo.free_spares();
  const bool has_left = record.has_left;
  record.lock.leave();
  if (has_left) parked_.fetch_add(1, kRelaxed);  // relaxed: a hint how many there are
  record.is_offline = state == kOffline;
  record.token.countdown = record.token.interval = 1;
  record.due = true;  // any use while parked then reaches expect_own
  let_go(record);
  if (has_reports()) go_away(record);
  // The next thread that takes the record is not mistaken for this one until it writes its number.
  if (state == kFree) record.owner.set(0);
  record.attached.store(state, kRelease);  // pairs: attached
  // A handler may have run in between. From now on a handler's pin aborts.
  if (state == kOffline) let_go(record);
}

// Takes what was left behind by threads that ended, are offline or are idle.
void Core::adopt_left(Record& into, bool by_slots) noexcept {
  // relaxed: hints
  const bool looks_for_idle = has_passed(idle_looked_for_.load(kRelaxed), kIdleTime);
  if (parked_.load(kRelaxed) == 0 && !looks_for_idle) return;  // relaxed: a hint
  // Does nothing during a barrier: objects that the barrier has not seen would move to a record
  // that it has passed.
  if (pthread_mutex_trylock(&barrier_) != 0) return;
  if (parked_.load(kRelaxed) > 0) adopt_parked(into, by_slots);  // relaxed: a hint
  if (looks_for_idle) adopt_idle(into);
  pthread_mutex_unlock(&barrier_);
}

void Core::adopt_parked(Record& into, bool by_slots) noexcept {
  // pairs: records
  for (Record* record = records.load(kAcquire); record != nullptr; record = record->next) {
    const uint32_t state = claim_parked(*record);
    if (state == kClaimed) continue;
    const bool is_safe = by_slots || has_passed(record->parked_at, kGrace);
    if (record->has_left && is_safe && !record->lock.is_claimed(asymmetric)) {
      into.lock.enter(asymmetric);
      if (by_slots) {
        record->limbo.give_all_held(into.limbo);
      } else {
        record->limbo.give_all_safe(into.limbo);
      }
      count_garbage(*record);
      count_garbage(into);
      into.lock.leave();
      record->limbo.free_spares();
      record->has_left = false;
      parked_.fetch_sub(1, kRelaxed);  // relaxed: a hint
    }
    record->attached.store(state, kRelease);  // pairs: attached
  }
}

// A hint: the owner may have become active again.
bool Core::is_idle(const Record& record) const noexcept {
  return record.attached.load(kRelaxed) == kAttached &&  // relaxed: looked at again
         record.limbo.held() + record.limbo.waiting() > 0 &&
         has_passed(record.active_at.load(kRelaxed), kIdleTime);  // relaxed: a hint
}

// Executes one heavy fence for all, and does not wait: a thread that is just retiring is not idle.
// An owner that becomes active meanwhile waits until this thread releases the claim.
void Core::adopt_idle(Record& into) noexcept {
  Record* const first = records.load(kAcquire);  // pairs: records
  unsigned claims = 0;
  Record* record = first;
  for (; record != nullptr && claims < kTakenAtOnce; record = record->next) {
    if (record == &into || !is_idle(*record)) continue;
    record->lock.begin_claim();
    claims++;
  }
  if (record == nullptr) idle_looked_for_.store(now(), kRelaxed);  // relaxed: a hint
  if (claims == 0) return;
  heavy_fence(asymmetric);
  for (record = first; record != nullptr; record = record->next) {
    if (record == &into || !record->lock.was_claimed()) continue;
    if (!record->lock.is_owner_inside()) take_idle(*record, into);
    record->lock.release();
  }
}

// Under epochs, a bag's label tells any thread when the bag is safe. Otherwise no other thread
// knows when the owner retired what is there: it counts as retired now, by this thread.
void Core::take_idle(Record& record, Record& into) noexcept {
  // If not attached, what it left is marked, and adopt_parked takes it. pairs: attached
  if (record.attached.load(kAcquire) != kAttached) return;
  into.lock.enter(asymmetric);
  if (has_epochs()) {
    record.limbo.give_safe(now(), kEpochBags, into.limbo);
  } else {
    record.limbo.give_all_held(into.limbo);
  }
  count_garbage(record);
  count_garbage(into);
  into.lock.leave();
  record.limbo.free_spares();
}

// `then` may come from another thread, and be later than the time this one reads. Rounds wrap.
bool Core::has_passed(uint64_t then, uint64_t distance) const noexcept {
  if (traits.scheme == Scheme::token) return TokenRing::has_passed(ring.round(), then, distance);
  return static_cast<int64_t>(now() - then) >= static_cast<int64_t>(distance);
}

uint64_t Core::now() const noexcept {
  switch (traits.scheme) {
    case Scheme::epochs:
    case Scheme::sections:
    case Scheme::quiescence:
    case Scheme::ping:
      return clock.epoch.load(kAcquire);  // pairs: epoch-clock
    case Scheme::token:
      return ring.round();
    case Scheme::hazards:
    case Scheme::intervals:
    case Scheme::batches:
      return epochs_.load(kRelaxed);  // relaxed: a measure of time, it orders nothing
    case Scheme::leaky:
      break;
  }
  return 0;
}

void lose(Record& record) noexcept {
  record.lock.enter(record.core->asymmetric);
  record.limbo.leak();
  record.lock.leave();
}

namespace {

// The bags are added up only if there is a thread to wake.
void wake_for_batch(const Record& record) noexcept {
  ReclaimerWord word(record.core->reclaimer);
  if (!word.is_asleep()) return;
  const size_t objects = record.limbo.held() + record.limbo.waiting();
  if (objects >= record.core->settings.batch_size) word.wake();
}

}  // namespace

void check_others(Record& record) noexcept {
  wake_for_batch(record);
  switch (record.core->traits.scheme) {
    case Scheme::epochs:
    case Scheme::sections:
    case Scheme::quiescence:
    case Scheme::ping:
      return check_epochs(record);
    case Scheme::token:
      return check_token(record);
    case Scheme::leaky:
    case Scheme::hazards:
    case Scheme::intervals:
    case Scheme::batches:
      break;
  }
}

}  // namespace near::reclaim::impl

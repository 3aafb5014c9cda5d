// synchronize waits until every open guard has ended, barrier until everything was freed.
// Thread-safety: any thread that is not pinned in this domain.
#include <utility>

#include "nearmalloc/reclaim/born.hpp"
#include "nearmalloc/reclaim/impl/core.hpp"
#include "nearmalloc/reclaim/impl/quiescence.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"
#include "reclaim/away.h"
#include "reclaim/inside.h"
#include "reclaim/patience.h"
#include "reclaim/process.h"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {
namespace {

void set_all_aside(Core& core, Retirable* words) noexcept {
  while (words != nullptr) core.set_aside(*std::exchange(words, words->next));
}

void destroy_all(Retirable* words) noexcept {
  while (words != nullptr) {
    Retirable& each = *std::exchange(words, words->next);
    each.type->destroy(each.type->object_of(each));
  }
}

}  // namespace

// Ends the epoch. False: a thread is in an older one, which is noted for the report of stalls. What
// handlers announced on this thread is withdrawn first: it would hold the epoch as well.
bool Core::advance_or_report(EpochWords<Record>& words, Record& me) noexcept {
  Away::let_go_all(*this, me);
  words.seen = clock.epoch.load(kAcquire);  // pairs: epoch-clock
  Scan scan = Scan::going;
  while (scan == Scan::going) scan = scan_step(clock, records, words, has_asymmetric_fences());
  if (scan == Scan::advanced) record_epoch(me, words.seen + 1);
  if (scan != Scan::blocked) return true;
  // relaxed: to recognise a stall
  record_blocked(me, *words.cursor, words.cursor->epoch.announced.load(kRelaxed));
  return false;
}

// Under QSBR `me` is away.
void Core::wait_for_epochs(Record& me) noexcept {
  const bool has_plain_announcements = has_reports() || has_sections();
  const uint64_t distance = has_plain_announcements ? kEpochsToWait : kEpochsToWaitForPins;
  // A thread that pinned before the fence announces at most the epoch that is read now.
  heavy_fence(has_asymmetric_fences());
  const uint64_t start = clock.epoch.load(kAcquire);  // pairs: epoch-clock
  EpochWords<Record> words;
  Patience patience;
  while (clock.epoch.load(kAcquire) < start + distance) {  // pairs: epoch-clock
    if (!advance_or_report(words, me)) patience.wait();
  }
}

void Core::wait_for_rounds(Record& me) noexcept {
  heavy_fence(asymmetric);  // a thread that passes the token later sees what was unlinked before
  const uint64_t start = ring.round();
  Patience patience;
  // One pass may have looked at the records before the fence, and have started the next round.
  while (!TokenRing::has_passed(ring.round(), start, kGrace)) {
    let_go(me);
    if (const auto word = ring.at(me.index)) {
      ring.pass(records, me, *word, asymmetric);
      continue;
    }
    const uint64_t word = ring.word();
    Record* holder = ring.skip_idle(records, me, asymmetric);
    if (holder == nullptr) continue;
    record_blocked(me, *holder, word);
    patience.wait();
  }
}

void Core::wait_for_grace(Record& me) noexcept {
  switch (traits.scheme) {
    case Scheme::epochs:
    case Scheme::sections:
    case Scheme::quiescence:
    case Scheme::ping:
      return wait_for_epochs(me);
    case Scheme::token:
      return wait_for_rounds(me);
    case Scheme::leaky:
    case Scheme::hazards:
    case Scheme::intervals:
    case Scheme::batches:
      break;
  }
}

// Returns this thread's record. Aborts if the thread would wait for itself.
// `in_deleters`: a deleter may call this.
Record& Core::to_wait_with(const char* misuse, bool in_deleters) noexcept {
  if (has_ended) fail_with(misuse);  // in a deleter that the end of the domain runs
  for_each_own(*this, [&](const Record& record) {
    if (!record.stay.is_outside() || (record.working && !in_deleters)) fail_with(misuse);
  });
  Record* me = has_reports() ? found() : of_this_thread();
  if (me == nullptr && has_reports()) me = attach();
  if (me == nullptr) fail_with("there is no memory for the record of a thread that waits");
  expect_own(*me);  // while offline it cannot take part in what it waits for
  return *me;
}

// Under QSBR a record that only this wait uses does not stay: its thread would have to report.
void Core::end_wait(Record& me) noexcept {
  if (has_reports() && found() != &me) detach(me);
}

void Core::synchronize() noexcept {
  Record& me =
      to_wait_with("synchronize by a thread that is pinned, or frees", traits.deleters_may_wait);
  {
    const Away away(*this, me);
    wait_for_grace(me);
    if (has_sections()) wait_for_places(me);
  }
  end_wait(me);
}

// Waits until no slot holds what it holds now, which a guard keeps from one section to the next. A
// walk gives its place up when it is asked again, so the epoch has to move.
void Core::wait_for_places(Record& me) noexcept {
  EpochWords<Record> words;
  Patience patience;
  // pairs: records
  for (Record* record = records.load(kAcquire); record != nullptr; record = record->next) {
    const uint32_t used = record->hazards.used.load(kRelaxed);  // relaxed: ordered by the epoch
    for (uint32_t i = 0; i < used; i++) {
      Atomic<const void*>& slot = record->hazards.slots[i];
      const void* const held = slot.load(kAcquire);             // pairs: hazard
      while (held != nullptr && slot.load(kAcquire) == held) {  // pairs: hazard
        advance_or_report(words, me);
        patience.wait();
      }
    }
  }
}

// Frees what is in the bags of `me`, waiting until no slot or reservation holds any of it; under
// Hyaline, until all batches sent before have landed, and then what landed anywhere.
void Core::free_when_let_go(Record& me) noexcept {
  Patience patience;
  for (;;) {
    let_go(me);
    look(me);
    free_now(me, SIZE_MAX);
    if (me.limbo.held() == 0) break;
    patience.wait();
  }
  if (traits.scheme != Scheme::batches) return;
  wait_for_flights(me);
  take_from_all(me, true);
  free_now(me, SIZE_MAX);
}

// Waits until no slot holds what has aged.
void Core::wait_for_slots(Record& me) noexcept {
  EpochWords<Record> words;
  Patience patience;
  for (;;) {
    expire_unheld(me);
    if (me.limbo.aged() == 0) return;
    free_now(me, SIZE_MAX);
    advance_or_report(words, me);
    patience.wait();
  }
}

// Takes what is in the limbo of another record, or what has expired in it. False: the record is
// changing hands just now.
bool Core::take_limbo(Record& record, Record& me, bool only_safe) noexcept {
  const auto take = [&] {
    me.lock.enter(asymmetric);
    if (only_safe) {
      record.limbo.give_safe(0, 0, me.limbo);
    } else {
      record.limbo.give_all_held(me.limbo);
    }
    count_garbage(record);
    count_garbage(me);
    me.lock.leave();
  };
  record.lock.claim(asymmetric);
  const bool attached = record.attached.load(kAcquire) == kAttached;  // pairs: attached
  if (attached) take();                                               // its owner waits at the lock
  record.lock.release();
  if (attached) return true;
  const uint32_t state = claim_parked(record);
  if (state == kClaimed) return false;
  take();
  record.attached.store(state, kRelease);  // pairs: attached
  return true;
}

void Core::take_from_all(Record& me, bool only_safe) noexcept {
  Patience patience;
  // pairs: records
  for (Record* record = records.load(kAcquire); record != nullptr; record = record->next) {
    while (record != &me && !take_limbo(*record, me, only_safe)) patience.wait();
  }
}

// Moves what was set aside to the limbo of `into`, as retired now. Returns what found no room.
// Requires the mutex of barriers.
Retirable* Core::move_aside(Record& into) noexcept {
  Retirable* words = aside_.take_all();
  if (words == nullptr) return nullptr;
  into.lock.enter(asymmetric);
  while (words != nullptr) {
    Retirable* next = words->next;  // read first: the object may be gone afterwards
    const RetirableType& type = *words->type;
    if (!into.limbo.try_push(type.object_of(*words), type.destroy, type.bytes)) break;
    if (has_eras()) into.limbo.date_last({0, read_end(eras, asymmetric)});
    words = next;
  }
  count_garbage(into);
  into.lock.leave();
  return words;
}

void Core::adopt_aside_slow(Record& into) noexcept {
  if (pthread_mutex_trylock(&barrier_) != 0) return;
  set_all_aside(*this, move_aside(into));
  pthread_mutex_unlock(&barrier_);
}

void Core::free_everything(Record& me) noexcept {
  const Inside inside(me);
  Retirable* left = nullptr;
  {
    const Away away(*this, me);
    pthread_mutex_lock(&barrier_);
    me.working = true;
    take_from_all(me, false);
    left = move_aside(me);
    wait_for_grace(me);
  }
  if (has_only_looks()) {
    set_all_aside(*this, left);  // the interface that sets objects aside there has no barrier
    free_when_let_go(me);
  } else {
    me.lock.enter(asymmetric);
    me.limbo.expire_all();
    me.lock.leave();
    if (has_sections()) wait_for_slots(me);
    free_now(me, SIZE_MAX);
    const uint32_t before = me.stay.leave_library();
    destroy_all(left);
    me.stay.restore(before);
  }
  me.working = false;
  pthread_mutex_unlock(&barrier_);
}

void Core::barrier() noexcept {
  if (traits.scheme == Scheme::leaky) return;
  Record& me = to_wait_with("barrier by a thread that is pinned, or frees", false);
  free_everything(me);
  end_wait(me);
}

}  // namespace near::reclaim::impl

// Repairs a domain in the child of a fork.
//
// Invariant: afterwards the domain has the threads that the child has, which is one. What the other
// threads had retired can be freed, except what a thread was just changing: that is lost, and
// counted as lost.
// Thread-safety: the child's only thread, inside fork.
#include <utility>

#include "nearmalloc/reclaim/impl/core.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"
#include "reclaim/process.h"
#include "reclaim/reclaimer_word.h"
#include "reclaim/schemes.h"

// relaxed in this file: one thread
namespace near::reclaim::impl {
namespace {

bool is_of(const Record& record, int32_t thread) noexcept {
  const bool is_used = record.is_offline || record.attached.load(kRelaxed) == kAttached;
  return is_used && record.owner.thread() == thread;
}

template <class F>
void for_each_list(Record& record, F f) noexcept {
  for (Atomic<BatchNode*>* list : {&record.lists.own, &record.lists.handlers}) f(*list);
}

template <class F>
void for_each_batch(Record& record, F f) noexcept {
  for_each_list(record, [&](Atomic<BatchNode*>& list) {
    BatchNode* node = list.load(kRelaxed);
    for (; has_batch(node); node = node->next) f(*node->batch);
  });
}

// The batch will land: all its references are known.
void keep(Flights& flights, Batch& batch) noexcept {
  batch.fork = fork_count();
  batch.phase = flights.counts.send(batch.objects.objects, batch.objects.bytes);
}

}  // namespace

// Under Hyaline: drops the references of threads that are gone. Batches that have references of
// which no list knows are lost, unless the survivor has those: a handler of it may have forked.
void Core::rescue_flights(int32_t survivor) noexcept {
  Record* const first = records.load(kAcquire);  // pairs: records
  const auto for_each_record = [&](bool is_survivors, auto f) {
    for (Record* record = first; record != nullptr; record = record->next) {
      if (is_of(*record, survivor) == is_survivors) f(*record);
    }
  };
  for_each_record(false, [&](Record& record) {
    for_each_list(record, [&](auto& list) { drop_aside(*this, close_list(list)); });
  });
  const uint64_t before = flights.counts.objects();
  flights.counts.forget();
  Batch* batch = flights.ready.take_all();
  while (batch != nullptr) {
    Batch& each = *std::exchange(batch, batch->next);
    keep(flights, each);
    flights.ready.push(each);
  }
  for_each_record(
      true, [](Record& record) { for_each_batch(record, [](Batch& each) { each.found = 0; }); });
  for_each_record(
      true, [](Record& record) { for_each_batch(record, [](Batch& each) { each.found++; }); });
  for_each_record(true, [&](Record& record) {
    for_each_batch(record, [&](Batch& each) {
      const bool is_whole = each.found == each.references.load(kRelaxed);
      if (is_whole && each.fork != fork_count()) keep(flights, each);
    });
  });
  lost_.fetch_add(before - flights.counts.objects(), kRelaxed);
}

// A thread that is gone may have been moving credit or bytes: the reserve is what the others leave.
void Core::settle_reserve() noexcept {
  if (!is_limited()) return;
  auto reserve = static_cast<int64_t>(settings.max_unreclaimed_bytes - flights.counts.bytes());
  // pairs: records
  for (Record* record = records.load(kAcquire); record != nullptr; record = record->next) {
    reserve -= record->limbo.credit + static_cast<int64_t>(record->limbo.bytes());
  }
  reserve_.store(reserve, kRelaxed);
}

// Called in the child of a fork, which has one thread. What the other threads were changing at the
// fork may be inconsistent.
void Core::abandon_other_threads(int32_t survivor) noexcept {
  pthread_mutex_init(&barrier_, nullptr);
  ReclaimerWord(reclaimer).end();
  rescue_flights(survivor);
  // pairs: records
  for (Record* record = records.load(kAcquire); record != nullptr; record = record->next) {
    const bool was_claimed = record->lock.was_claimed();  // by a barrier or adopt_idle
    if (is_of(*record, survivor)) {
      if (was_claimed) record->limbo.lose_all();
      record->lock.forget_claim();
      record->owner.set(own_thread());
      record->attached.store(record->is_offline ? kOffline : kAttached, kRelaxed);
      record->due = true;  // what was rescued waits for it
      continue;
    }
    const bool torn =
        record->lock.was_inside() || was_claimed || record->attached.load(kRelaxed) == kClaimed;
    if (torn) record->limbo.lose_all();
    record->is_offline = false;
    record->owner.set(0);
    record->lock.reset();
    record->hazards.clear_all();
    record->epoch.announced.store(0, kRelaxed);
    record->interval.lower.store(0, kRelaxed);
    record->token.active.store(0, kRelaxed);
    record->stay.end();
    record->interrupted = false;
    record->is_present = false;
    record->working = false;
    record->limbo.promised = 0;
    return_all_credit(*record);
    record->parked_at = now();
    record->has_left = record->limbo.held() + record->limbo.waiting() > 0;
    record->attached.store(kFree, kRelaxed);
  }
  settle_reserve();
  garbage_.store(0, kRelaxed);
  unsigned parked = 0;
  // pairs: records
  for (Record* record = records.load(kAcquire); record != nullptr; record = record->next) {
    record->counted_garbage = 0;
    count_garbage(*record);
    parked += record->has_left ? 1 : 0;
  }
  parked_.store(parked, kRelaxed);
}

}  // namespace near::reclaim::impl

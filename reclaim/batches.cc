// Sends batches and receives them, for Hyaline.
//
// Invariant: after a look nothing is left in the bags, except if there was no memory for a batch:
// what a thread retired is in flight, or has expired in the limbo of the thread that let go last.
// Thread-safety: only the record's owner, except where a function says otherwise.
#include "nearmalloc/reclaim/impl/batches.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "nearmalloc/reclaim/born.hpp"
#include "nearmalloc/reclaim/impl/core.hpp"
#include "reclaim/inside.h"
#include "reclaim/patience.h"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {
namespace {

// A look cuts what it sends into so many batches at most. The last one has all births that are
// left, so threads may keep more of it than they hold.
constexpr unsigned kMostBatches = 8;

// Null: no memory.
Batch* make_batch(const Record* first) noexcept {
  uint32_t room = 0;
  for (const Record* record = first; record != nullptr; record = record->next) room += 2;
  void* const memory = std::malloc(sizeof(Batch) + room * sizeof(BatchNode));
  if (memory == nullptr) return nullptr;
  auto* const batch = new (memory) Batch{};
  batch->nodes = new (batch + 1) BatchNode[room];
  for (uint32_t i = 0; i < room; i++) batch->nodes[i].batch = batch;
  batch->room = room;
  batch->references.store(room + 1, kRelaxed);  // relaxed: released with the nodes
  return batch;
}

// Requires the record's lock.
void land(Record& record, Batch& batch) noexcept {
  Flights& flights = record.core->flights;
  const uint64_t objects = batch.objects.objects;
  const uint64_t bytes = batch.objects.bytes;
  record.limbo.take_in(batch.objects);
  flights.bytes.fetch_sub(bytes, kRelaxed);                       // relaxed: a counter
  flights.objects[batch.phase % 2].fetch_sub(objects, kRelease);  // pairs: flights
  std::free(&batch);
}

// What the thread let go of last is freed by it, as its policy says.
void receive(Record& record, Batch& batch) noexcept {
  const size_t left = record.limbo.waiting();
  record.lock.enter(record.core->asymmetric);
  land(record, batch);
  record.core->count_garbage(record);
  record.lock.leave();
  adapt_quota(record, left);
  record.due = true;
}

// Sends what was born until `cut`. Requires the record's lock. False: no memory.
bool send_until(Record& record, Record* first, uint64_t birth, uint64_t cut) noexcept {
  Batch* const batch = make_batch(first);
  if (batch == nullptr) return false;
  Flights& flights = record.core->flights;
  batch->birth = birth;
  batch->phase = flights.phase.load(kRelaxed);  // relaxed: ordered by the record's lock
  record.limbo.take_out(cut, batch->objects);
  flights.bytes.fetch_add(batch->objects.bytes, kRelaxed);  // relaxed: a counter
  // relaxed: ordered by the record's lock
  flights.objects[batch->phase % 2].fetch_add(batch->objects.objects, kRelaxed);
  if (send(first, *batch)) land(record, *batch);
  return true;
}

// Requires a heavy fence since what is in the bags was unlinked, and the record's lock.
void send_all(Record& record) noexcept {
  Record* const first = record.core->records.load(kAcquire);  // pairs: records
  for (unsigned number = 1; record.limbo.held() > 0; number++) {
    const Births births = record.limbo.births();
    const uint64_t upper = next_upper(first, births.earliest);
    if (upper == kNoEra) return record.limbo.expire_all();
    const uint64_t cut = number < kMostBatches ? upper : births.latest;
    if (!send_until(record, first, births.earliest, cut)) return;
  }
}

void take_ready(Record& record) noexcept {
  Atomic<Batch*>& ready = record.core->flights.ready;
  // relaxed: a hint
  if (ready.load(kRelaxed) == nullptr) return;
  Batch* batch = ready.exchange(nullptr, kAcquire);  // pairs: batches-ready
  while (batch != nullptr) {
    Batch* const next = batch->next;
    receive(record, *batch);
    batch = next;
  }
}

}  // namespace

// Any thread, also in a signal handler.
void drop_aside(Core& core, BatchNode* list) noexcept {
  drop(list, [&](Batch& batch) {
    Atomic<Batch*>& ready = core.flights.ready;
    batch.next = ready.load(kRelaxed);  // relaxed: the exchange checks it
    // pairs: batches-ready
    while (!ready.compare_exchange_weak(batch.next, &batch, kRelease, kRelaxed)) {
    }
  });
}

void look_at_batches(Record& record) noexcept {
  Core& core = *record.core;
  core.record_look();
  begin_process_era();
  take_ready(record);
  record.lock.enter(core.asymmetric);
  core.count_garbage(record);
  send_all(record);
  core.count_garbage(record);
  record.lock.leave();
}

void batches_retired(Record& record) noexcept {
  Core& core = *record.core;
  const size_t limit = eras_limit(core);
  const size_t left = record.limbo.waiting();
  core.adopt_left(record, true);
  look_at_batches(record);
  if (record.limbo.waiting() > left) adapt_quota(record, left);
  core.record_epoch(record, 0);
  record.active_at.store(core.now(), kRelaxed);  // relaxed: a hint
  keep_bound(record, limit);
  record.due = true;  // the rest is freed as the policy says, from the next pin on
  const size_t held = record.limbo.current();
  record.look_at = std::max(limit, held + held / 2);
}

void batches_let_go(Record& record, BatchNode* list) noexcept {
  const Inside inside(record);
  drop(list, [&](Batch& batch) { receive(record, batch); });
  record.active_at.store(record.core->now(), kRelaxed);  // relaxed: a hint
}

void batches_left_open(Record& record) noexcept {
  drop_aside(*record.core, close_list(record.lists.own));
}

void batches_before_pin(Record& record) noexcept {
  expect_own(record);
  const Inside inside(record);
  if (record.in_debt && !record.working) pay_unpinned(record);
  take_ready(record);
  keep_bound(record, eras_limit(*record.core));
  work_of_own(record);
}

// Called by a barrier that has taken all limbos, and sent what it took. Batches of two phases may
// be in flight then: a sender may have read the phase before the last barrier changed it.
void Core::wait_for_flights(Record& me) noexcept {
  const auto wait_landed = [&](uint64_t phase) {
    Patience patience;
    while (flights.objects[phase % 2].load(kAcquire) != 0) {  // pairs: flights
      let_go(me);
      take_ready(me);
      patience.wait();
    }
  };
  // relaxed: the barrier's mutex and the records' locks order it
  const uint64_t phase = flights.phase.load(kRelaxed);
  wait_landed(phase + 1);                    // that of the phase before, which none sends in now
  flights.phase.store(phase + 1, kRelaxed);  // relaxed: the same
  wait_landed(phase);
}

// The end of a domain: no guard is left, except for what a handler left open.
void Core::land_all() noexcept {
  // pairs: records
  for (Record* record = records.load(kAcquire); record != nullptr; record = record->next) {
    drop_aside(*this, close_list(record->lists.own));
    drop_aside(*this, close_list(record->lists.handlers));
  }
  if (Record* record = records.load(kAcquire)) take_ready(*record);  // pairs: records
}

}  // namespace near::reclaim::impl

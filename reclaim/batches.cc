// Sends batches and receives them, for Hyaline.
//
// Invariant: after a look nothing is left in the bags, except if there was no memory for a batch:
// what a thread retired is in flight, or has expired in the limbo of the thread that let go last.
// Thread-safety: only the record's owner, except where a function says otherwise.
#include "nearmalloc/reclaim/impl/batches.hpp"

#include <cstdlib>
#include <new>
#include <utility>

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

// What a look may send to without reading records again: 4 KiB of the stack.
constexpr uint32_t kTargets = 256;
using SendingTo = Targets<Record, BatchNode, kTargets>;

constexpr size_t bytes_of_batch(uint32_t room) { return sizeof(Batch) + room * sizeof(BatchNode); }

// Null: no memory.
Batch* make_batch(const limbo_memory& memory, const SendingTo& targets, uint64_t birth) noexcept {
  const uint32_t room = targets.count_from(birth);
  void* const place = memory.allocate(bytes_of_batch(room), memory.context);
  if (place == nullptr) return nullptr;
  auto* const batch = new (place) Batch{};
  batch->nodes = new (batch + 1) BatchNode[room];
  for (uint32_t i = 0; i < room; i++) batch->nodes[i].batch = batch;
  batch->birth = birth;
  batch->room = room;
  batch->references.store(room + 1, kRelaxed);  // relaxed: released with the nodes
  return batch;
}

// Requires the record's lock.
void land(Record& record, Batch& batch) noexcept {
  Core& core = *record.core;
  const uint64_t objects = batch.objects.objects;
  const uint64_t bytes = batch.objects.bytes;
  record.limbo.take_in(batch.objects);
  if (batch.fork == fork_count()) {
    core.flights.counts.land(batch.phase, objects, bytes);
  } else {
    core.find_again(objects, bytes);
  }
  const limbo_memory& memory = core.settings.memory;
  memory.deallocate(&batch, bytes_of_batch(batch.room), memory.context);
}

// What the thread let go of last is freed by it, as its policy says.
void receive(Record& record, Batch& batch) noexcept {
  record.lock.enter(record.core->asymmetric);
  land(record, batch);
  record.core->count_garbage(record);
  record.lock.leave();
  record.due = true;
}

// Sends what was born from `birth`, the earliest, until `cut`. Requires the record's lock. False:
// no memory.
bool send_until(Record& record, const SendingTo& targets, uint64_t birth, uint64_t cut) noexcept {
  Batch* const batch = make_batch(record.core->settings.memory, targets, birth);
  if (batch == nullptr) return false;
  record.limbo.take_out(cut, batch->objects);
  batch->fork = fork_count();  // the child of a fork from here on counts what is sent
  batch->phase = record.core->flights.counts.send(batch->objects.objects, batch->objects.bytes);
  if (send(targets, *batch)) land(record, *batch);
  return true;
}

// Requires a heavy fence since what is in the bags was unlinked, and the record's lock.
void send_all(Record& record) noexcept {
  if (record.limbo.held() == 0) return;
  // pairs: records
  const SendingTo targets(record.core->records.load(kAcquire), record.limbo.births().earliest);
  for (unsigned number = 1; record.limbo.held() > 0; number++) {
    const Births births = record.limbo.births();
    const uint64_t upper = targets.next_upper(births.earliest);
    if (upper == kNoEra) return record.limbo.expire_all();
    const uint64_t cut = number < kMostBatches ? upper : births.latest;
    if (!send_until(record, targets, births.earliest, cut)) return;
  }
}

// The quota is adapted once for all batches that came together. A look adapts it at its end.
void adapt_to_received(Record& record, size_t left) noexcept {
  if (record.limbo.waiting() > left) adapt_quota(record, left);
}

void take_ready(Record& record) noexcept {
  Batch* batch = record.core->flights.ready.take_all();
  while (batch != nullptr) receive(record, *std::exchange(batch, batch->next));
}

}  // namespace

// Any thread, also in a signal handler.
void drop_aside(Core& core, BatchNode* list) noexcept {
  drop(list, [&](Batch& batch) { core.flights.ready.push(batch); });
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

void batches_let_go(Record& record, BatchNode* list) noexcept {
  const Inside inside(record);
  const size_t left = record.limbo.waiting();
  drop(list, [&](Batch& batch) { receive(record, batch); });
  adapt_to_received(record, left);
  record.active_at.store(record.core->now(), kRelaxed);  // relaxed: a hint
}

void batches_left_open(Record& record) noexcept {
  drop_aside(*record.core, close_list(record.lists.own));
}

void batches_before_pin(Record& record) noexcept {
  expect_own(record);
  const Inside inside(record);
  if (record.in_debt && !record.working) pay_unpinned(record);
  const size_t left = record.limbo.waiting();
  take_ready(record);
  adapt_to_received(record, left);
  keep_bound(record, eras_limit(*record.core));
  work_of_own(record);
}

// Called by a barrier that has taken all limbos, and sent what it took.
void Core::wait_for_flights(Record& me) noexcept {
  Patience patience;
  flights.counts.wait([&] {
    let_go(me);
    take_ready(me);
    patience.wait();
  });
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

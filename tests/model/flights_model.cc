// Model of how a barrier under Hyaline waits for batches (reclaim/impl/flight_counts.hpp,
// batches.hpp, owner_lock.hpp, aside.hpp). Mirrors push of reclaim/schemes.hpp; send_all, receive,
// take_ready and wait_for_flights of reclaim/batches.cc; take_from_all and free_everything of
// reclaim/waiting.cc.
//
// Invariant: when a barrier ends, all that was retired before it began is freed, wherever it was:
// in a limbo, in a batch of either phase, or set aside by a handler; nothing is freed twice.
// Bound: 3 threads. One retires 4 objects, and sends up to once after each; one attaches late, is
// pinned 2 times, by its own list or as a handler, which sets aside what it lets go of last; it may
// take that with a second record that it attaches then, and have a barrier of its own. One has up
// to 3 barriers; the other two go on after the first of them in half of the executions. Threads
// free what they received at once, or leave it to the barrier.
#include "nearmalloc/reclaim/impl/aside.hpp"
#include "nearmalloc/reclaim/impl/batches.hpp"
#include "nearmalloc/reclaim/impl/flight_counts.hpp"
#include "nearmalloc/reclaim/impl/owner_lock.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "retired.h"

namespace near::reclaim::impl {

void yield() noexcept { rl::yield(1, debug_info(Place::current())); }

}  // namespace near::reclaim::impl

namespace near::model {
namespace {

using namespace reclaim::impl;

Witness sent_to_reader("batches that the reader got");
Witness waited("steps in which a barrier waited");
Witness set_aside("batches that a handler set aside");
Witness taken_aside("batches that were set aside, and that a barrier received");
Witness left_to_barrier("objects that landed elsewhere, and that a barrier took");
Witness checked("objects that a barrier had to free");

struct Batch;

struct Node {
  using batch_type = Batch;
  Plain<Node*> next;
  Plain<Batch*> batch;
};

struct Batch {
  uint64_t birth = 0;
  uint32_t room = 0;
  uint64_t phase = 0;
  Atomic<uint32_t> references{0};
  Node nodes[2 * kThreads];
  Limbo objects;
  Plain<Batch*> next;
};

struct Record {
  IntervalWords interval;
  BatchLists<Node> lists;
  OwnerLock lock;
  Limbo held;
  Limbo expired;
  Plain<Record*> next;
};

class Flights : public FencedSuite<Flights> {
 public:
  void before() {
    asymmetric_ = choose(2) == 1;
    is_late_ = choose(2) == 1;
    for (Object& each : objects_) each.make();
    for (Batch& each : batches_) each.objects.init(0);
    for (Record& each : rooms_) {
      each.held.init(0);
      each.expired.init(0);
    }
  }

  void thread(unsigned index) {
    Record& mine = rooms_[index];
    if (index == 1 && choose(2) == 1) attaches_.wait();
    add_record(records_, mine);
    if (index != 2 && is_late_) barrier_ended_.wait();
    if (index == 0) {
      retire_all(mine);
    } else if (index == 1) {
      for (int i = 0; i < 2; i++) pin(mine);
      if (choose(2) == 1) barrier(mine);
    } else {
      for (uint32_t barriers = 1 + choose(3); barriers > 0; barriers--) barrier(mine);
    }
  }

 private:
  void retire_all(Record& mine) {
    for (uint32_t i = 0; i < kObjects; i++) {
      mine.lock.enter(asymmetric_);
      mine.held.push(&objects_[i]);
      mine.lock.leave();
      told_.store(i + 1, kRelease);
      if (i == 2 && choose(2) == 1) pinned_.wait();
      if (i == 1) attaches_.open();
      if (choose(2) == 1) look(mine);
    }
  }

  void pin(Record& mine) {
    const bool is_handler = choose(3) == 0;
    Atomic<Node*>& list = is_handler ? mine.lists.handlers : mine.lists.own;
    open_list(read_birth(clock_), mine.interval, list, asymmetric_);
    pinned_.open();
    if (choose(2) == 1) waits_.wait();
    drop(close_list(list), [&](Batch& batch) {
      sent_to_reader.note();
      if (is_handler) {
        set_aside.note();
        ready_.push(batch);
      } else {
        receive(mine, batch);
      }
    });
    if (is_handler && !has_second_ && choose(2) == 1) {
      has_second_ = true;
      add_record(records_, rooms_[3]);
      take_ready(rooms_[3]);
    }
    if (choose(2) == 1) free_expired(mine);
  }

  // look_at_batches, in one batch
  void look(Record& mine) {
    take_ready(mine);
    begin_era(clock_, asymmetric_);
    mine.lock.enter(asymmetric_);
    if (mine.held.count() > 0) send_all(mine);
    mine.lock.leave();
  }

  void send_all(Record& mine) {
    const Targets<Record, Node, 2 * kThreads> targets(records_.load(kAcquire), 0);
    Batch& batch = batches_[made_.fetch_add(1, kRelaxed)];
    for (Node& each : batch.nodes) each.batch = &batch;
    batch.room = targets.count_from(0);
    batch.references.store(batch.room + 1, kRelaxed);
    const uint32_t count = mine.held.count();
    mine.held.give_all_held(batch.objects);
    if (mutated("a batch is counted after it was sent")) {
      const bool is_mine = send(targets, batch);
      batch.phase = counts_.send(count, 0);
      if (is_mine) land(mine, batch);
      return;
    }
    batch.phase = counts_.send(count, 0);
    if (send(targets, batch)) land(mine, batch);
  }

  void receive(Record& mine, Batch& batch) {
    mine.lock.enter(asymmetric_);
    land(mine, batch);
    mine.lock.leave();
  }

  void land(Record& mine, Batch& batch) {
    const uint32_t count = batch.objects.count();
    batch.objects.give_all_held(mine.expired);
    counts_.land(batch.phase, count, 0);
  }

  uint32_t take_ready(Record& mine) {
    uint32_t taken = 0;
    for (Batch* batch = ready_.take_all(); batch != nullptr; taken++) {
      Batch& each = *batch;
      batch = each.next;
      receive(mine, each);
    }
    return taken;
  }

  void free_expired(Record& mine) {
    mine.lock.enter(asymmetric_);
    mine.expired.free_all();
    mine.lock.leave();
  }

  // Core::barrier
  void barrier(Record& mine) {
    uint32_t expected = 0;
    while (!barriers_.compare_exchange_strong(expected, 1, kAcquire, kRelaxed)) {
      yield();
      expected = 0;
    }
    const uint32_t told = told_.load(kAcquire);
    take_from_all(mine, &Record::held);
    look(mine);
    free_expired(mine);
    counts_.wait([&] {
      waited.note();
      waits_.open();
      if (mutated("a barrier does not take what was set aside")) return yield();
      if (take_ready(mine) > 0) taken_aside.note();
      yield();
    });
    if (!mutated("a barrier does not take what landed")) take_from_all(mine, &Record::expired);
    free_expired(mine);
    for (uint32_t i = 0; i < told; i++) {
      checked.note();
      expect(objects_[i].is_freed(), "a barrier ends before what was retired is freed");
    }
    barriers_.store(0, kRelease);
    barrier_ended_.open();
  }

  // Both bags, or only what has expired; what this thread takes as expired is freed by it.
  void take_from_all(Record& mine, Limbo Record::* which) {
    for (Record* each = records_.load(kAcquire); each != nullptr; each = each->next) {
      if (each == &mine) continue;
      each->lock.claim(asymmetric_);
      mine.lock.enter(asymmetric_);
      if (which == &Record::held) {
        each->held.give_all_held(mine.held);
      } else if (each->expired.count() > 0) {
        left_to_barrier.note();
      }
      each->expired.give_all_held(mine.expired);
      mine.lock.leave();
      each->lock.release();
    }
  }

  static constexpr uint32_t kObjects = 4;
  bool asymmetric_ = false;
  EraClock clock_;
  Atomic<Record*> records_{nullptr};
  Record rooms_[4];
  FlightCounts counts_;
  Aside<Batch> ready_;
  Atomic<uint32_t> barriers_{0};  // the mutex
  Atomic<uint32_t> told_{0};      // how many objects were retired
  bool is_late_ = false;
  bool has_second_ = false;  // the second thread's
  Gate attaches_;
  Gate barrier_ended_;
  Gate pinned_;
  Gate waits_;
  Object objects_[kObjects];
  Batch batches_[kObjects + 2];
  Atomic<uint32_t> made_{0};
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Flights>("send, land, wait", Random{200'000}),
};

const std::vector<Mutation> kMutations = {
    {"landing does not release", "flight_counts.hpp", "::land(", kRelease, kRelaxed},
    {"a barrier does not acquire what landed", "flight_counts.hpp", "wait_for(", kAcquire,
     kRelaxed},
    {"what a handler set aside is not released", "aside.hpp", "::push(", kRelease, kRelaxed},
    {"what a handler set aside is not acquired", "aside.hpp", "::take_all(", kAcquire, kRelaxed},
    {"a batch is counted after it was sent"},
    {"a barrier does not take what was set aside"},
    {"a barrier does not take what landed"},
};

}  // namespace near::model

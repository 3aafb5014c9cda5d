// Model of Hyaline (reclaim/impl/batches.hpp, interval.hpp), with both kinds of fence.
// Mirrors hyaline of reclaim/schemes.hpp; send_all, send_until, land of reclaim/batches.cc; and a
// handler that interrupts a pin or `extend` (stay.cc). flights_model.cc has the rest.
//
// Invariant: an object is freed once, after the last use by every thread that validated its pointer
// inside a pin; at rest, all that was retired is freed.
// Bound: 3 threads that attach while the others run. One begins up to 2 eras, pins and protects 2
// times, all that 2 times, and may be interrupted by a handler that protects; one does the same
// with the list of handlers, by hold, and pins again under an open list; one replaces the object 3
// times, pinned or not, and sends up to 2 times after each, so that a batch has up to 3 objects.
// All three receive batches. A node of a batch that was received is written anew. A look notes the
// lists of all records, or of the first one.
#include "eras_model.h"
#include "nearmalloc/reclaim/impl/batches.hpp"

namespace near::model {
namespace {

Witness freed_by_readers("objects freed by a reader that let go last");
Witness freed_by_sender("objects freed by the sender, as all had let go");
Witness never_sent("objects freed without being sent");
Witness not_sent("batches that were not sent to a pinned thread, as they were born later");
Witness cut("looks that sent two batches");

struct Batch;

struct Node {
  using batch_type = Batch;
  Plain<Node*> next;
  Plain<Batch*> batch;
};

struct Batch {
  uint64_t birth = 0;
  uint32_t room = 0;
  Atomic<uint32_t> references{0};
  Node nodes[2 * kThreads];
  Plain<Thing*> things[3];
  Plain<uint32_t> count;
};

struct Record {
  IntervalWords interval;
  BatchLists<Node> lists;
  Plain<Record*> next;
};

// A look notes as many lists as `Room`, and reads the others anew.
template <uint32_t Room>
class Batches : public Eras<Batches<Room>, Record> {
  using Base = Eras<Batches<Room>, Record>;
  using Base::asymmetric_;
  using Base::clock_;
  using Base::records_;

 public:
  void pin(Record& record, uint64_t era) {
    open_list(era, record.interval, record.lists.own, asymmetric_);
  }
  void unpin(Record& record) { let_go(record.lists.own); }
  void pin_in_handler(Record& record) {
    keep_open(read_birth(clock_), record.interval, record.lists.handlers, asymmetric_);
  }
  void unpin_in_handler(Record& record) { let_go(record.lists.handlers); }

  // A handler in a handler finds the list open.
  void hold_and_read(Record& record) {
    for (int round = 0; round < 2; round++) {
      this->begin_eras();
      const uint32_t pins = 1 + choose(2);
      for (uint32_t i = 0; i < pins; i++) {
        pin_in_handler(record);
        this->hold(record);
      }
      unpin_in_handler(record);
    }
  }

  void retire(Record&, Thing& thing) { retired_[count_++] = &thing; }
  bool may_come_back(const Thing&) { return false; }
  void after() { expect(freed_ == 3, "an object that was retired stays for ever"); }

  // look_at_batches
  void look(Record&) {
    begin_era(clock_, asymmetric_);
    if (count_ == 0) return;
    const Targets<Record, Node, Room> targets(records_.load(kAcquire), earliest());
    for (uint32_t sent = 0; count_ > 0; sent++) {
      if (sent == 1) cut.note();
      const uint64_t upper = targets.next_upper(earliest());
      if (upper == kNoEra) return free_all();
      // The last batch of a look has all that is left.
      send_until(targets, choose(4) == 0 ? UINT64_MAX : upper);
    }
  }

 private:
  uint64_t earliest() const {
    uint64_t earliest = UINT64_MAX;
    for (uint32_t i = 0; i < count_; i++) {
      earliest = std::min<uint64_t>(earliest, retired_[i]->birth);
    }
    return earliest;
  }

  void let_go(Atomic<Node*>& list) {
    drop(close_list(list), [&](Batch& batch) { receive(batch, freed_by_readers); });
  }

  void free_all() {
    for (uint32_t i = 0; i < count_; i++) {
      retired_[i]->object.destroy();
      never_sent.note();
      freed_++;
    }
    count_ = 0;
  }

  template <class SendingTo>
  void send_until(const SendingTo& targets, uint64_t upper) {
    Batch& batch = batches_[made_++];
    batch.birth = earliest();
    batch.room = targets.count_from(batch.birth);
    if (targets.count_from(0) > batch.room) not_sent.note();
    batch.references.store(batch.room + (mutated("a sender has no reference") ? 0 : 1), kRelaxed);
    for (Node& node : batch.nodes) node.batch = &batch;
    uint32_t taken = 0;
    uint32_t left = 0;
    for (uint32_t i = 0; i < count_; i++) {
      Thing* const thing = retired_[i];
      if (thing->birth > upper) {
        retired_[left++] = thing;
        continue;
      }
      batch.things[taken++] = thing;
      if (mutated("a batch has the birth of its last object")) batch.birth = thing->birth;
    }
    count_ = left;
    batch.count = taken;
    if (mutated("a thread in the era of the birth is left out")) batch.birth++;
    if (send(targets, batch)) receive(batch, freed_by_sender);
  }

  // What `land` does, and the deleters.
  void receive(Batch& batch, Witness& witness) {
    for (Node& node : batch.nodes) node.next = nullptr;
    const uint32_t count = batch.count;
    for (uint32_t i = 0; i < count; i++) {
      Thing* const thing = batch.things[i];
      thing->object.destroy();
      witness.note();
      freed_++;
    }
  }

  uint32_t freed_ = 0;
  // The third thread's.
  Batch batches_[4];
  uint32_t made_ = 0;
  Thing* retired_[4] = {};
  uint32_t count_ = 0;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Batches<2 * kThreads>>("pin, protect, send, let go", Random{250'000}),
    explore<Batches<2>>("most records are read for each batch", Random{100'000}),
};

const std::vector<Mutation> kMutations = {
    {"a list is opened without a fence", "batches.hpp", "open_list(", kSeqCst, kRelaxed},
    {"a handler's list is opened without a fence", "batches.hpp", "keep_open(", kSeqCst, kRelaxed},
    {"an era is raised without a fence", "interval.hpp", "raise_to(", kSeqCst, kRelaxed},
    {"a look begins without a fence", "interval.hpp", "begin_era(", kSeqCst, kRelaxed},
    {"the source is not acquired", "interval.hpp", "protect_by_era(", kAcquire, kRelaxed},
    {"unpin does not release", "batches.hpp", "close_list(", kAcqRel, kAcquire},
    {"unpin does not acquire", "batches.hpp", "close_list(", kAcqRel, kRelease},
    {"a closed list is not acquired", "batches.hpp", "put_on(", kAcquire, kRelaxed},
    {"a list that closes is not acquired", "batches.hpp", "put_on(", kAcqRel, kRelease},
    {"a node is not released", "batches.hpp", "put_on(", kAcqRel, kAcquire},
    {"a look does not acquire that lists are closed", "batches.hpp", "for_each_list(", kAcquire,
     kRelaxed, "list->load"},
    {"an era is not released", "interval.hpp", "note_era(", kRelease, kRelaxed},
    {"an era is not acquired", "batches.hpp", "for_each_list(", kAcquire, kRelaxed, "upper.load"},
    {"a dropped reference does not release", "batches.hpp", "drop(", kAcqRel, kAcquire},
    {"the last reference does not acquire", "batches.hpp", "drop(", kAcqRel, kRelease},
    {"the sender's last reference does not acquire", "batches.hpp", "send(", kAcqRel, kRelease},
    {"the sender's reference does not release", "batches.hpp", "send(", kAcqRel, kAcquire},
    {"protect outside of a pin"},
    {"the era is not read again"},
    {"what is held is used in another era"},
    {"a sender has no reference"},
    {"a batch has the birth of its last object"},
    {"a thread in the era of the birth is left out"},
};

}  // namespace near::model

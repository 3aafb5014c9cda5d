// Model of Hyaline (reclaim/impl/batches.hpp, interval.hpp), with both kinds of fence.
// Mirrors hyaline of reclaim/schemes.hpp; send_all, send_until, land of reclaim/batches.cc.
//
// Invariant: an object is freed once, after the last use by every thread that validated its pointer
// inside a pin; at rest, all that was retired is freed.
// Bound: 3 threads that attach while the others run. One begins up to 2 eras, pins and protects 2
// times, all that 2 times; one does the same with the list of handlers, by hold, and pins again
// under an open list; one replaces the object 3 times, pinned or not, and sends up to 2 times after
// each, so that a batch has up to 3 objects. All three receive batches. A node of a batch that was
// received is written anew.
#include "nearmalloc/reclaim/impl/batches.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "retired.h"

namespace near::model {
namespace {

using namespace reclaim::impl;

Witness freed_by_readers("objects freed by a reader that let go last");
Witness freed_by_sender("objects freed by the sender, as all had let go");
Witness never_sent("objects freed without being sent");
Witness not_held("batches that were not sent to a pinned thread, as they were born later");
Witness cut("looks that sent two batches");
Witness extended("eras that were raised in a pin");

struct Batch;

struct Node {
  using batch_type = Batch;
  Plain<Node*> next;
  Plain<Batch*> batch;
};

struct Thing {
  Object object;
  uint64_t birth = 0;
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

class Batches : public FencedSuite<Batches> {
 public:
  Batches() : asymmetric_(choose(2) == 1), source_(&things_[0]) { make(things_[0]); }

  void thread(unsigned index) {
    Record& record = rooms_[index];
    add_record(records_, record);
    if (index == 0) {
      for (int i = 0; i < 2; i++) read(record);
    } else if (index == 1) {
      hold_and_read(record);
    } else {
      replace_all(record);
    }
  }

  void after() { expect(freed_ == 3, "an object that was retired stays for ever"); }

 private:
  void begin_eras() {
    for (uint32_t eras = choose(3); eras > 0; eras--) begin_era(clock_, asymmetric_);
  }

  void pin(Record& record) { open_list(clock_, record.interval, record.lists.own, asymmetric_); }

  void unpin(Atomic<Node*>& list) {
    drop(close_list(list), [&](Batch& batch) { receive(batch, freed_by_readers); });
  }

  Thing* protect(Record& record) {
    const uint64_t before = record.interval.upper.load(kRelaxed);
    Thing* const thing = protect_by_era(clock_, record.interval, source_, asymmetric_);
    if (record.interval.upper.load(kRelaxed) != before) extended.note();
    return thing;
  }

  void read(Record& record) {
    begin_eras();
    if (!mutated("protect outside of a pin")) pin(record);
    const Thing* first = protect(record);
    first->object.touch();
    const Thing* second = protect(record);
    second->object.touch();
    first->object.touch();
    unpin(record.lists.own);
  }

  // A handler in a handler finds the list open.
  void hold_and_read(Record& record) {
    for (int round = 0; round < 2; round++) {
      begin_eras();
      const uint32_t pins = 1 + choose(2);
      for (uint32_t i = 0; i < pins; i++) {
        keep_open(clock_, record.interval, record.lists.handlers, asymmetric_);
        Thing* const thing = source_.load(kRelaxed);
        const uint64_t era = extend(clock_, record.interval, asymmetric_);
        if (source_.load(kAcquire) == thing && is_still(clock_, era)) thing->object.touch();
      }
      unpin(record.lists.handlers);
    }
  }

  void replace_all(Record& record) {
    const bool is_made_early = choose(2) == 1;
    if (is_made_early) make(things_[1]);
    for (uint32_t i = 1; i <= 3; i++) {
      if (i > 1 || !is_made_early) make(things_[i]);
      const bool is_pinned = choose(2) == 1;
      if (is_pinned) pin(record);
      retired_[count_++] = source_.exchange(&things_[i], kRelease);
      for (uint32_t looks = choose(3); looks > 0; looks--) look();
      if (is_pinned) unpin(record.lists.own);
    }
    look();
  }

  void make(Thing& thing) {
    thing.object.make();
    thing.birth = read_birth(clock_);
  }

  // look_at_batches
  void look() {
    begin_era(clock_, asymmetric_);
    Record* const first = records_.load(kAcquire);
    for (uint32_t sent = 0; count_ > 0; sent++) {
      if (sent == 1) cut.note();
      uint64_t earliest = UINT64_MAX;
      for (uint32_t i = 0; i < count_; i++) earliest = std::min(earliest, retired_[i]->birth);
      const uint64_t upper = next_upper(static_cast<const Record*>(first), earliest);
      if (upper == kNoEra) return free_all();
      // The last batch of a look has all that is left.
      send_until(first, earliest, choose(4) == 0 ? UINT64_MAX : upper);
    }
  }

  void free_all() {
    for (uint32_t i = 0; i < count_; i++) {
      retired_[i]->object.destroy();
      never_sent.note();
      freed_++;
    }
    count_ = 0;
  }

  void send_until(Record* first, uint64_t birth, uint64_t upper) {
    Batch& batch = batches_[made_++];
    uint32_t records = 0;
    for (const Record* each = first; each != nullptr; each = each->next) records++;
    batch.room = 2 * records;
    batch.birth = birth;
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
    for (const Record* each = first; each != nullptr; each = each->next) {
      if (each->interval.upper.load(kRelaxed) < birth && each->lists.is_open()) not_held.note();
    }
    if (send(first, batch)) receive(batch, freed_by_sender);
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

  const bool asymmetric_;
  uint32_t freed_ = 0;
  EraClock clock_;
  Atomic<Record*> records_{nullptr};
  Record rooms_[3];
  Thing things_[4];
  Atomic<Thing*> source_;
  // The third thread's.
  Batch batches_[4];
  uint32_t made_ = 0;
  Thing* retired_[4] = {};
  uint32_t count_ = 0;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Batches>("pin, protect, send, let go", Random{300'000}),
};

const std::vector<Mutation> kMutations = {
    {"a list is opened without a fence", "batches.hpp", "open_list(", kSeqCst, kRelaxed},
    {"a handler's list is opened without a fence", "batches.hpp", "keep_open(", kSeqCst, kRelaxed},
    {"an era is raised without a fence", "interval.hpp", "extend(", kSeqCst, kRelaxed},
    {"a look begins without a fence", "interval.hpp", "begin_era(", kSeqCst, kRelaxed},
    {"the source is not acquired", "interval.hpp", "protect_by_era(", kAcquire, kRelaxed},
    {"unpin does not release", "batches.hpp", "close_list(", kAcqRel, kAcquire},
    {"unpin does not acquire", "batches.hpp", "close_list(", kAcqRel, kRelease},
    {"a closed list is not acquired", "batches.hpp", "put_on(", kAcquire, kRelaxed},
    {"a list that closes is not acquired", "batches.hpp", "put_on(", kAcqRel, kRelease},
    {"a node is not released", "batches.hpp", "put_on(", kAcqRel, kAcquire},
    {"a look does not acquire that lists are closed", "batches.hpp", "is_open(", kAcquire,
     kRelaxed},
    {"a dropped reference does not release", "batches.hpp", "drop(", kAcqRel, kAcquire},
    {"the last reference does not acquire", "batches.hpp", "drop(", kAcqRel, kRelease},
    {"the sender's last reference does not acquire", "batches.hpp", "send(", kAcqRel, kRelease},
    {"the sender's reference does not release", "batches.hpp", "send(", kAcqRel, kAcquire},
    {"protect outside of a pin"},
    {"a sender has no reference"},
    {"a batch has the birth of its last object"},
    {"a thread in the era of the birth is left out"},
};

}  // namespace near::model

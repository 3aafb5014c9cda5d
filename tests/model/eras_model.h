// What the models of ibr and hyaline share: objects that note when they were made, threads that
// read one source under eras, and one that replaces what is there.
//
// Invariant: an object is used inside a pin only, after its pointer was validated. A suite says by
// `pin`, `unpin` and the same in handlers how pins begin and end; by `retire` and `look` what
// becomes of an object.
// Thread-safety: each thread of a suite has a record of its own.
#pragma once

#include "nearmalloc/reclaim/impl/interval.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "retired.h"

namespace near::model {

using namespace reclaim::impl;

inline Witness extended("eras that were raised in a pin");
inline Witness not_held("objects that were still there, in an era that was not noted");
inline Witness went_down("eras that went down, as a handler had raised them meanwhile");

struct Thing {
  Object object;
  Plain<uint64_t> birth;
  Plain<uint64_t> end;
  bool is_free = false;  // only the thread that frees looks
};

template <class Suite, class Record>
class Eras : public FencedSuite<Suite> {
 public:
  Eras() : asymmetric_(choose(2) == 1), source_(&things_[0]) { make(things_[0]); }

  void thread(unsigned index) {
    Record& record = rooms_[index];
    add_record(records_, record);
    if (index == 0) {
      for (int i = 0; i < 2; i++) read(record);
    } else if (index == 1) {
      self().hold_and_read(record);
    } else {
      replace_all(record);
    }
  }

 protected:
  // A look of a thread that retired nothing.
  void begin_eras() {
    for (uint32_t eras = choose(3); eras > 0; eras--) begin_era(clock_, asymmetric_);
  }

  Thing* protect(Record& record) {
    if (!mutated("the era is not read again")) {
      const uint64_t before = record.interval.upper.load(kRelaxed);
      Thing* const thing = protect_by_era(clock_, record.interval, source_, asymmetric_);
      if (record.interval.upper.load(kRelaxed) != before) extended.note();
      return thing;
    }
    extend(clock_, record.interval, asymmetric_);
    return source_.load(kAcquire);
  }

  void read(Record& record) {
    begin_eras();
    const uint32_t interrupted = choose(4);
    if (interrupted == 0) {
      pin_interrupted(record);
    } else if (!mutated("protect outside of a pin")) {
      self().pin(record, clock_.now.load(kAcquire));
    }
    const Thing* first = protect(record);
    first->object.touch();
    if (interrupted == 1) extend_interrupted(record);
    const Thing* second = protect(record);
    second->object.touch();
    first->object.touch();
    self().unpin(record);
    if (interrupted == 0) self().unpin_in_handler(record);
  }

  // A handler reads after the thread read the era, and before it notes it.
  void pin_interrupted(Record& record) {
    const uint64_t era = clock_.now.load(kAcquire);
    self().pin_in_handler(record);
    read_in_handler(record, era);
    self().pin(record, era);
  }
  void extend_interrupted(Record& record) {
    const uint64_t era = clock_.now.load(kRelaxed);
    read_in_handler(record, era);
    raise_to(era, record.interval, asymmetric_);
  }
  void read_in_handler(Record& record, uint64_t era) {
    const Thing* thing = protect(record);
    thing->object.touch();
    if (record.interval.upper.load(kRelaxed) > era) went_down.note();
  }

  // What a structure does that goes down: hold, look at the link again, and at the era.
  void hold(Record& record) {
    Thing* const thing = source_.load(kRelaxed);
    const uint64_t era = extend(clock_, record.interval, asymmetric_);
    if (source_.load(kAcquire) != thing) return;
    if (!is_still(clock_, era)) not_held.note();
    if (!is_still(clock_, era) && !mutated("what is held is used in another era")) return;
    thing->object.touch();
  }

  void replace_all(Record& record) {
    const bool is_made_early = choose(2) == 1;
    if (is_made_early) make(things_[1]);
    for (uint32_t i = 1; i <= 3; i++) {
      if (i > 1 || !is_made_early) make(things_[i]);
      const bool is_pinned = choose(2) == 1;
      if (is_pinned) self().pin(record, clock_.now.load(kAcquire));
      replace(record, i);
      for (uint32_t looks = choose(3); looks > 0; looks--) self().look(record);
      if (is_pinned) self().unpin(record);
      if (i == 2 && self().may_come_back(things_[0])) {
        make(things_[0]);  // where an object lay that was freed
        replace(record, 0);
        self().look(record);
      }
    }
    self().look(record);
  }

  void make(Thing& thing) {
    thing.object.make();
    thing.birth = read_birth(clock_);
    thing.is_free = false;
  }

  const bool asymmetric_;
  EraClock clock_;
  Atomic<Record*> records_{nullptr};
  Record rooms_[3];
  Thing things_[4];
  Atomic<Thing*> source_;

 private:
  Suite& self() { return static_cast<Suite&>(*this); }
  void replace(Record& record, uint32_t by) {
    self().retire(record, *source_.exchange(&things_[by], kRelease));
  }
};

}  // namespace near::model

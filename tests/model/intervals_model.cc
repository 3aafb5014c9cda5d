// Model of interval-based reclamation (reclaim/impl/interval.hpp), with both kinds of fence.
// Mirrors ibr of reclaim/schemes.hpp, look_at_intervals of reclaim/intervals.cc, and a handler that
// interrupts a pin or `extend` (stay.cc).
//
// Invariant: an object is freed after the last use by every thread that validated its pointer
// inside a pin.
// Bound: 3 threads that attach while the others run. One begins up to 2 eras, pins and protects 2
// times, all that 2 times, and may be interrupted by a handler that protects; one begins up to 2
// eras, pins and reads 3 times by hold, a second look at the source and a look at the era; one
// replaces the object 3 times, by objects that it makes then or has made before, and looks up to 2
// times after each. An object may lie where another one lay.
#include "eras_model.h"

namespace near::model {
namespace {

Witness born_later("objects freed beside a reservation, as they were born after it");
Witness ended_before("objects freed beside a reservation, as they ended before it");
Witness objects_held("objects that were kept for a reservation");
Witness era_later("objects found by a pin in the era after their end");

struct Record {
  IntervalWords interval;
  Plain<Record*> next;
  Thing* retired[8] = {};
  uint32_t count = 0;
};

class Intervals : public Eras<Intervals, Record> {
 public:
  void pin(Record& record, uint64_t era) { reserve_in(era, record.interval, asymmetric_); }
  void unpin(Record& record) { end_reservation(record.interval); }
  void pin_in_handler(Record& record) { reserve(clock_, record.interval, asymmetric_); }
  void unpin_in_handler(Record& record) { end_reservation(record.interval); }

  void hold_and_read(Record& record) {
    begin_eras();
    reserve(clock_, record.interval, asymmetric_);
    for (int i = 0; i < 3; i++) hold(record);
    unpin(record);
  }

  void retire(Record& record, Thing& thing) {
    thing.end = read_end(clock_, asymmetric_);
    if (mutated("a birth is noted at the end")) thing.birth = thing.end;
    record.retired[record.count++] = &thing;
  }
  bool may_come_back(const Thing& thing) { return thing.is_free && choose(2) == 1; }

  // look_at_intervals
  void look(Record& record) {
    begin_era(clock_, asymmetric_);
    Life held[kThreads];
    uint32_t count = 0;
    collect_intervals(records_,
                      [&](uint64_t lower, uint64_t upper) { held[count++] = {lower, upper}; });
    uint32_t kept = 0;
    for (uint32_t i = 0; i < record.count; i++) {
      Thing& thing = *record.retired[i];
      if (is_held(thing, held, count)) {
        record.retired[kept++] = &thing;
      } else {
        thing.is_free = true;
        thing.object.destroy();
      }
    }
    record.count = kept;
  }

 private:
  static bool is_held(const Thing& thing, const Life* held, uint32_t count) {
    const Life life{thing.birth, thing.end};
    for (uint32_t i = 0; i < count; i++) {
      const uint64_t slack = mutated("an object of the era before is not held") ? 1 : 0;
      if (holds(held[i].birth + slack, held[i].end, life)) {
        objects_held.note();
        return true;
      }
      (life.birth > held[i].end ? born_later : ended_before).note();
    }
    return false;
  }
};

// What the slack of one era is for: three threads that retire, begin eras, and pin.
// Invariant: a thread that finds the object linked has reserved at most the era after its end.
// Bound: 1 retirement, 3 eras, 1 pin.
class Ends : public FencedSuite<Ends> {
 public:
  Ends() : asymmetric_(choose(2) == 1) {}

  void thread(unsigned index) {
    if (index == 0) {
      reserve(clock_, words_, asymmetric_);
      is_found_ = linked_.load(kRelaxed) != 0;
    } else if (index == 1) {
      for (int i = 0; i < 3; i++) begin_era(clock_, asymmetric_);
    } else {
      linked_.store(0, kRelaxed);
      end_ = read_end(clock_, asymmetric_);
    }
  }
  void after() {
    if (!is_found_) return;
    const uint64_t lower = words_.lower.load(kRelaxed);
    if (lower == end_ + 1) era_later.note();
    expect(lower <= end_ + 1, "a thread found an object, and does not hold it");
  }

 private:
  const bool asymmetric_;
  EraClock clock_;
  IntervalWords words_;
  Atomic<uint32_t> linked_{1};
  bool is_found_ = false;
  uint64_t end_ = 0;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Intervals>("reserve, protect, retire, look", Random{300'000}),
    explore<Ends>("the end of a life beside a pin", Random{200'000}),
};

const std::vector<Mutation> kMutations = {
    {"a reservation begins without a fence", "interval.hpp", "reserve_in(", kSeqCst, kRelaxed},
    {"a reservation is extended without a fence", "interval.hpp", "raise_to(", kSeqCst, kRelaxed},
    {"an end is noted without a fence", "interval.hpp", "read_end(", kSeqCst, kRelaxed},
    {"an era begins without a fence", "interval.hpp", "begin_era(", kSeqCst, kRelaxed},
    {"a pin does not acquire the era", "interval.hpp", "reserve(", kAcquire, kRelaxed},
    {"an upper end is not released", "interval.hpp", "note_era(", kRelease, kRelaxed},
    {"an upper end is not acquired", "interval.hpp", "collect_intervals", kAcquire, kRelaxed,
     "upper.load"},
    {"the source is not acquired", "interval.hpp", "protect_by_era(", kAcquire, kRelaxed},
    {"unpin does not release", "interval.hpp", "end_reservation(", kRelease, kRelaxed},
    {"a lower end is not acquired", "interval.hpp", "collect_intervals", kAcquire, kRelaxed,
     "lower.load"},
    {"the records are not acquired", "interval.hpp", "collect_intervals", kAcquire, kRelaxed,
     "head.load"},
    {"a lower end is not released", "interval.hpp", "reserve_in(", kRelease, kRelaxed},
    {"protect outside of a pin"},
    {"the era is not read again"},
    {"what is held is used in another era"},
    {"a birth is noted at the end"},
    {"an object of the era before is not held"},
};

}  // namespace near::model

// Model of interval-based reclamation (reclaim/impl/interval.hpp), with both kinds of fence.
// Mirrors ibr of reclaim/schemes.hpp, look_at_intervals of reclaim/intervals.cc.
//
// Invariant: an object is freed after the last use by every thread that validated its pointer
// inside a pin.
// Bound: 3 threads that attach while the others run. One begins up to 2 eras, pins and protects 2
// times, all that 2 times; one begins up to 2 eras, pins and reads 3 times by hold, a second look
// at the source and a look at the era; one replaces the node 3 times, by nodes that it makes then
// or has made before, and looks up to 3 times after each. A node may lie where another one lay.
#include "nearmalloc/reclaim/impl/interval.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "retired.h"

namespace near::model {
namespace {

using namespace reclaim::impl;

Witness born_later("objects freed beside a reservation, as they were born after it");
Witness ended_before("objects freed beside a reservation, as they ended before it");
Witness objects_held("objects that were kept for a reservation");
Witness extended("reservations that were extended");
Witness era_later("objects found by a pin in the era after their end");
Witness not_held("objects that were still there, in an era that was not reserved");

struct Node {
  Object object;
  Plain<uint64_t> birth;
  Plain<uint64_t> end;
  bool is_free = false;  // only the thread that frees looks
};

struct Record {
  IntervalWords interval;
  Plain<Record*> next;
  Node* retired[8] = {};
  uint32_t count = 0;
};

class Intervals : public FencedSuite<Intervals> {
 public:
  Intervals() : asymmetric_(choose(2) == 1), source_(&nodes_[0]) {
    nodes_[0].object.make();
    nodes_[0].birth = read_birth(clock_);
  }

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

 private:
  void pin(Record& record) { reserve(clock_, record.interval, asymmetric_); }

  // A look of a thread that retired nothing.
  void begin_eras() {
    for (uint32_t eras = choose(3); eras > 0; eras--) begin_era(clock_, asymmetric_);
  }

  Node* protect(Record& record) {
    if (!mutated("the era is not read again")) {
      const uint64_t before = record.interval.upper.load(kRelaxed);
      Node* const node = protect_by_era(clock_, record.interval, source_, asymmetric_);
      if (record.interval.upper.load(kRelaxed) != before) extended.note();
      return node;
    }
    extend(clock_, record.interval, asymmetric_);
    return source_.load(kAcquire);
  }

  void read(Record& record) {
    begin_eras();
    if (!mutated("protect outside of a pin")) pin(record);
    const Node* first = protect(record);
    first->object.touch();
    const Node* second = protect(record);
    second->object.touch();
    first->object.touch();
    end_reservation(record.interval);
  }

  // What a structure does that goes down: hold, look at the link again, and at the era.
  void hold_and_read(Record& record) {
    begin_eras();
    pin(record);
    for (int i = 0; i < 3; i++) {
      Node* const node = source_.load(kRelaxed);
      const uint64_t era = extend(clock_, record.interval, asymmetric_);
      if (source_.load(kAcquire) != node) continue;
      if (!is_still(clock_, era)) not_held.note();
      if (!is_still(clock_, era) && !mutated("what is held is used in another era")) continue;
      node->object.touch();
    }
    end_reservation(record.interval);
  }

  void replace_all(Record& record) {
    const bool is_made_early = choose(2) == 1;
    if (is_made_early) make(nodes_[1]);
    for (uint32_t i = 1; i <= 3; i++) {
      if (i > 1 || !is_made_early) make(nodes_[i]);
      const bool is_pinned = choose(2) == 1;
      if (is_pinned) pin(record);
      retire(record, *source_.exchange(&nodes_[i], kRelease));
      for (uint32_t looks = choose(4); looks > 0; looks--) look(record);
      if (is_pinned) end_reservation(record.interval);
      if (i == 2 && nodes_[0].is_free && choose(2) == 1) come_back(record);
    }
    look(record);
  }

  // A new node lies where one lay that was freed.
  void come_back(Record& record) {
    make(nodes_[0]);
    retire(record, *source_.exchange(&nodes_[0], kRelease));
    look(record);
  }

  void make(Node& node) {
    node.object.make();
    node.birth = read_birth(clock_);
    node.is_free = false;
  }

  void retire(Record& record, Node& node) {
    node.end = read_end(clock_, asymmetric_);
    if (mutated("a birth is noted at the end")) node.birth = node.end;
    record.retired[record.count++] = &node;
  }

  // look_at_intervals
  void look(Record& record) {
    begin_era(clock_, asymmetric_);
    Life held[kThreads];
    uint32_t count = 0;
    collect_intervals(records_,
                      [&](uint64_t lower, uint64_t upper) { held[count++] = {lower, upper}; });
    uint32_t kept = 0;
    for (uint32_t i = 0; i < record.count; i++) {
      Node& node = *record.retired[i];
      if (is_held(node, held, count)) {
        record.retired[kept++] = &node;
      } else {
        node.is_free = true;
        node.object.destroy();
      }
    }
    record.count = kept;
  }

  static bool is_held(const Node& node, const Life* held, uint32_t count) {
    const Life life{node.birth, node.end};
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

  const bool asymmetric_;
  EraClock clock_;
  Atomic<Record*> records_{nullptr};
  Record rooms_[3];
  Node nodes_[4];
  Atomic<Node*> source_;
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
    {"a reservation begins without a fence", "interval.hpp", "reserve(", kSeqCst, kRelaxed},
    {"a reservation is extended without a fence", "interval.hpp", "extend(", kSeqCst, kRelaxed},
    {"an end is noted without a fence", "interval.hpp", "read_end(", kSeqCst, kRelaxed},
    {"an era begins without a fence", "interval.hpp", "begin_era(", kSeqCst, kRelaxed},
    {"a pin does not acquire the era", "interval.hpp", "reserve(", kAcquire, kRelaxed},
    {"the source is not acquired", "interval.hpp", "protect_by_era(", kAcquire, kRelaxed},
    {"unpin does not release", "interval.hpp", "end_reservation(", kRelease, kRelaxed},
    {"a lower end is not acquired", "interval.hpp", "collect_intervals", kAcquire, kRelaxed,
     "lower.load"},
    {"the records are not acquired", "interval.hpp", "collect_intervals", kAcquire, kRelaxed,
     "head.load"},
    {"a lower end is not released", "interval.hpp", "reserve(", kRelease, kRelaxed},
    {"protect outside of a pin"},
    {"the era is not read again"},
    {"what is held is used in another era"},
    {"a birth is noted at the end"},
    {"an object of the era before is not held"},
};

}  // namespace near::model

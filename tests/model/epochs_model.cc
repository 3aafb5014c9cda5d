// Model of DEBRA (reclaim/impl/epoch.hpp), with both announce orders and both kinds of fence.
// Mirrors debra::enter of reclaim/schemes.hpp, enter_epoch and epochs_before_pin of
// reclaim/epochs.cc, park, adopt_parked and take_idle of reclaim/core.cc, wait_for_epochs of
// waiting.cc. The model owner_lock covers an idle thread that goes on in its limbo.
//
// Invariant: an object is freed after the last use by every thread that could see it.
// Bound: 3 threads that attach while the others run; one pins 2 times and reads, one unlinks and
// pins 4 times more or leaves, one pins 3 times and reads, unlinks or does nothing; 3 objects.
#include "nearmalloc/reclaim/impl/epoch.hpp"
#include "nearmalloc/reclaim/impl/quiescence.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "retired.h"

namespace near::model {
namespace {

using namespace reclaim::impl;

Witness epochs_advanced("epochs advanced");
Witness objects_adopted("objects adopted from a thread that left");
Witness idle_objects_taken("objects taken from an idle thread");
Witness objects_awaited("objects freed after synchronize");

struct Record {
  EpochWords<Record> epoch;
  Plain<Record*> next;
  Limbo limbo;
  Atomic<uint32_t> left{0};  // it parked, or has nothing to do
  Plain<bool> is_idle;
  Plain<uint64_t> parked_until;
};

// What the suites share.
class Reclaiming {
 protected:
  Reclaiming() : Reclaiming(choose(2) == 1, choose(2) == 1) {}
  Reclaiming(bool asymmetric, bool frees_quiescent)
      : asymmetric_(asymmetric), frees_quiescent_(frees_quiescent), source_(&objects_[0]) {
    for (Object& each : objects_) each.make();
  }

  void attach(Record& record) {
    record.limbo.init(record.epoch.seen);
    add_record(records_, record);
  }

  // debra::enter
  void pin(Record& record) {
    if (frees_quiescent_) before_pin(record);
    if (mutated("the label is taken before the announcement")) {
      settle(clock_, record.epoch, asymmetric_);
      return;
    }
    if (!announce_seen(clock_, record.epoch, asymmetric_)) {
      settle(clock_, record.epoch, asymmetric_);
      enter_epoch(record);
    }
    if (!frees_quiescent_) check(record);
  }
  void unpin(Record& record) { unannounce(record.epoch); }

  void before_pin(Record& record) {
    const uint64_t epoch = clock_.epoch.load(kAcquire);
    if (epoch != record.epoch.seen) {
      record.epoch.seen = epoch;
      enter_epoch(record);
    }
    check(record);
  }

  void enter_epoch(Record& record) {
    record.limbo.advance(record.epoch.seen, mutated("two bags") ? 2 : kEpochBags);
    for (Record* each = records_.load(kAcquire); each != nullptr; each = each->next) adopt(*each);
  }

  // check_epochs, which may look at any number of records in a call
  void check(Record& record) {
    for (uint32_t looks = choose(4); looks > 0; looks--) {
      const Scan scan = scan_step(clock_, records_, record.epoch, asymmetric_);
      if (scan == Scan::advanced) epochs_advanced.note();
      if (scan == Scan::blocked && mutated("a blocked scan goes on")) {
        record.epoch.cursor = record.epoch.cursor->next;
      } else if (scan != Scan::going) {
        return;
      }
    }
  }

  // Scans until it is blocked, or the epoch ends.
  void advance(Record& record) {
    record.epoch.seen = clock_.epoch.load(kAcquire);
    while (scan_step(clock_, records_, record.epoch, asymmetric_) == Scan::going) {
    }
  }

  void park(Record& record) {
    const uint64_t grace = mutated("what is left waits for two epochs only") ? 2 : kGrace;
    record.parked_until = clock_.epoch.load(kAcquire) + grace;
    record.is_idle = false;
    record.left.store(1, kRelease);
  }

  void stay_idle(Record& record) {
    record.is_idle = true;
    record.left.store(1, kRelease);
  }

  void adopt(Record& record) {
    uint32_t expected = 1;
    if (!record.left.compare_exchange_strong(expected, 2, kAcquire, kRelaxed)) return;
    if (record.is_idle) {
      take_idle(record);
      return record.left.store(1, kRelease);
    }
    const bool is_safe = clock_.epoch.load(kAcquire) >= record.parked_until;
    if (is_safe && record.limbo.count() > 0) objects_adopted.note();
    if (is_safe) record.limbo.free_all();
    record.left.store(1, kRelease);
  }

  // Limbo::give_safe
  void take_idle(Record& record) {
    const uint64_t now = clock_.epoch.load(kAcquire);
    const uint64_t grace = mutated("idle bags wait for two epochs only") ? 2 : kEpochBags;
    const uint32_t before = record.limbo.count();
    record.limbo.sift([&](const Object*, uint64_t label) { return label + grace > now; });
    if (record.limbo.count() < before) idle_objects_taken.note();
  }

  // Core::wait_for_epochs
  void synchronize() {
    if (!mutated("synchronize begins without a fence")) heavy_fence(asymmetric_);
    const uint64_t start = clock_.epoch.load(kAcquire);
    EpochWords<Record> words;
    const uint64_t wait = mutated("synchronize waits for one epoch") ? 1 : kEpochsToWaitForPins;
    for (;;) {
      words.seen = clock_.epoch.load(kAcquire);
      if (words.seen >= start + wait) return;
      Scan scan = Scan::going;
      while (scan == Scan::going) scan = scan_step(clock_, records_, words, asymmetric_);
      if (scan != Scan::advanced) rl::yield(1, debug_info(Place::current()));
    }
  }

  void read() const { source_.load(kAcquire)->touch(); }
  Object* unlink(uint32_t fresh) { return source_.exchange(&objects_[fresh], kAcqRel); }

  const bool asymmetric_;
  const bool frees_quiescent_;
  EpochClock clock_;
  Atomic<Record*> records_{nullptr};
  Record rooms_[3];
  Object objects_[3];
  Atomic<Object*> source_;
};

class Epochs : public FencedSuite<Epochs>, Reclaiming {
 public:
  void thread(unsigned index) {
    Record& record = rooms_[index];
    attach(record);
    if (index == 0) {
      for (int i = 0; i < 2; i++) {
        pin(record);
        read();
        unpin(record);
      }
    } else if (index == 1) {
      replace(record, 1);
      if (choose(3) == 0) return park(record);
      for (int i = 0; i < 4; i++) {
        pin(record);
        unpin(record);
      }
    } else {
      for (int i = 0; i < 3; i++) read_or_replace(record);
    }
  }

 private:
  void replace(Record& record, uint32_t fresh) {
    pin(record);
    record.limbo.push(unlink(fresh));
    unpin(record);
  }

  void read_or_replace(Record& record) {
    const uint32_t what = choose(4);
    if (what == 0 && !replaced_) {
      replaced_ = true;
      return replace(record, 2);
    }
    pin(record);
    if (what < 3) read();
    unpin(record);
  }

  bool replaced_ = false;
};

// The thread that advances the epoch for the third time relies on another thread's fence, and did
// not see the reader before. Only plain fences leave it without its own; only gates make it likely.
class AnothersFence : public FencedSuite<AnothersFence>, Reclaiming {
 public:
  AnothersFence() : Reclaiming(false, false) {}

  void before() {
    for (uint32_t i : {2, 1, 0}) attach(rooms_[i]);  // the reader is looked at first
  }

  void thread(unsigned index) {
    Record& record = rooms_[index];
    if (index == 0) {
      reader_looked_at_.wait();
      pin(record);
      const Object* object = source_.load(kAcquire);
      has_read_.open();
      object->touch();
      has_advanced_twice_.wait();
      object->touch();
      unpin(record);
    } else if (index == 1) {
      pin(record);
      has_read_.wait();
      record.limbo.push(unlink(1));
      unpin(record);
      has_unlinked_.open();
      has_advanced_.wait();
      for (int i = 0; i < 2; i++) {
        pin(record);
        has_fenced_.open();
        has_advanced_twice_.wait();
        unpin(record);
      }
    } else {
      advance(record);
      record.epoch.seen = clock_.epoch.load(kAcquire);
      scan_step(clock_, records_, record.epoch, asymmetric_);
      reader_looked_at_.open();
      has_unlinked_.wait();
      advance(record);
      has_advanced_.open();
      has_fenced_.wait();
      advance(record);
      has_advanced_twice_.open();
    }
  }

 private:
  Gate reader_looked_at_, has_read_, has_unlinked_, has_advanced_, has_fenced_, has_advanced_twice_;
};

// One scan that overlooks the reader frees what it reads: the object was retired under the epoch
// before the one that the reader announced. The thread that scans relies on a fence of another
// thread that has only begun, or has its list of records from before the reader attached.
class OneBadScan : public FencedSuite<OneBadScan>, Reclaiming {
 public:
  OneBadScan() : Reclaiming(choose(2) == 1, false) {}

  void before() {
    attach(rooms_[2]);
    attach(rooms_[1]);
    if (!is_late_) attach(rooms_[0]);  // the reader is looked at first
  }

  void thread(unsigned index) {
    if (index == 0) {
      read_long();
    } else if (index == 1) {
      retire_and_fence(rooms_[1]);
    } else {
      advance_thrice(rooms_[2]);
    }
  }

 private:
  void read_long() {
    reader_looked_at_.wait();
    if (is_late_) attach(rooms_[0]);
    pin(rooms_[0]);
    const Object* object = source_.load(kAcquire);
    has_read_.open();
    object->touch();
    has_advanced_thrice_.wait();
    object->touch();
    unpin(rooms_[0]);
  }

  void retire_and_fence(Record& record) {
    pin(record);
    has_pinned_.open();
    has_read_.wait();
    record.limbo.push(unlink(1));
    unpin(record);
    has_unlinked_.open();
    has_advanced_twice_.wait();
    record.epoch.seen = clock_.epoch.load(kAcquire);
    scan_step(clock_, records_, record.epoch, asymmetric_);
    has_advanced_thrice_.wait();
    pin(record);
    unpin(record);
  }

  void advance_thrice(Record& record) {
    has_pinned_.wait();
    advance(record);
    record.epoch.seen = clock_.epoch.load(kAcquire);
    scan_step(clock_, records_, record.epoch, asymmetric_);
    reader_looked_at_.open();
    has_unlinked_.wait();
    advance(record);
    has_advanced_twice_.open();
    record.epoch.seen = clock_.epoch.load(kAcquire);
    // relaxed: only waits for the moment
    for (int i = 0; i < 30 && clock_.fenced.load(kRelaxed) < record.epoch.seen; i++) pause();
    advance(record);
    has_advanced_thrice_.open();
  }

  const bool is_late_ = choose(2) == 1;
  Gate has_pinned_, reader_looked_at_, has_read_, has_unlinked_, has_advanced_twice_,
      has_advanced_thrice_;
};

// One thread scans all the time.
class TwoScanners : public FencedSuite<TwoScanners>, Reclaiming {
 public:
  void before() {
    for (uint32_t i : {2, 1, 0}) attach(rooms_[i]);  // the reader is looked at first
  }

  void thread(unsigned index) {
    Record& record = rooms_[index];
    if (index == 0) {
      pin(record);
      read();
      unpin(record);
    } else if (index == 1) {
      pin(record);
      if (mutated("unlinked outside of a pin")) unpin(record);
      record.limbo.push(unlink(1));
      unpin(record);
      for (int i = 0; i < 4; i++) {
        pin(record);
        unpin(record);
      }
    } else {
      for (int i = 0; i < 5; i++) {
        record.epoch.seen = clock_.epoch.load(kAcquire);
        while (scan_step(clock_, records_, record.epoch, asymmetric_) == Scan::going) pause();
      }
    }
  }
};

// One thread retires, stays attached and does nothing.
class Idle : public FencedSuite<Idle>, Reclaiming {
 public:
  void thread(unsigned index) {
    Record& record = rooms_[index];
    attach(record);
    if (index == 1) {
      pin(record);
      record.limbo.push(unlink(1));
      unpin(record);
      stay_idle(record);
    } else if (index == 0) {
      for (int i = 0; i < 2; i++) {
        pin(record);
        read();
        unpin(record);
      }
    } else {
      for (int i = 0; i < 7; i++) {
        pin(record);
        unpin(record);
      }
    }
  }
};

class Synchronize : public FencedSuite<Synchronize>, Reclaiming {
 public:
  void thread(unsigned index) {
    if (index == 1) {
      Object* old = unlink(1);
      synchronize();
      old->destroy();
      objects_awaited.note();
      return;
    }
    Record& record = rooms_[index];
    attach(record);
    for (int i = 0; i < 2; i++) {
      pin(record);
      read();
      unpin(record);
    }
  }
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<OneBadScan>("one bad scan", Random{50'000}),
    explore<Epochs>("pin, retire, advance", Random{400'000}),
    explore<TwoScanners>("two scanners", Random{200'000}),
    explore<AnothersFence>("another's fence", Random{100'000}),
    explore<Idle>("taken from an idle thread", Random{200'000}),
    explore<Synchronize>("synchronize", Random{200'000}),
};

const std::vector<Mutation> kMutations = {
    {"pin without a fence", "epoch.hpp", "::announce(", kSeqCst, kRelaxed},
    {"a scan without a fence", "epoch.hpp", "scan_step", kSeqCst, kRelaxed},
    {"an announcement does not release", "epoch.hpp", "::announce(", kRelease, kRelaxed},
    {"unpin does not release", "epoch.hpp", "::unannounce(", kRelease, kRelaxed},
    {"the epoch is not acquired", "epoch.hpp", "announce_newest", kAcquire, kRelaxed},
    {"another's fence is not acquired", "epoch.hpp", "scan_step", kAcquire, kRelaxed,
     "fenced.load"},
    {"the records are not acquired", "epoch.hpp", "scan_step", kAcquire, kRelaxed, "head.load"},
    {"an announcement is not acquired", "epoch.hpp", "scan_step", kAcquire, kRelaxed,
     "announced.load"},
    {"an advance does not release", "epoch.hpp", "scan_step", kRelease, kRelaxed,
     "compare_exchange"},
    {"a record is not released", "record_list.hpp", "add_record", kAcqRel, kAcquire},
    {"two bags"},
    {"the label is taken before the announcement"},
    {"a blocked scan goes on"},
    {"unlinked outside of a pin"},
    {"what is left waits for two epochs only"},
    {"idle bags wait for two epochs only"},
    {"synchronize begins without a fence"},
    {"synchronize waits for one epoch"},
};

}  // namespace near::model

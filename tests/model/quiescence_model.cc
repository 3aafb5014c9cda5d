// Model of QSBR (reclaim/impl/quiescence.hpp, owner_word.hpp, and the clock and scan of epoch.hpp).
// Mirrors report_slow, go_away and come_back of reclaim/epochs.cc, park, adopt_parked of
// reclaim/core.cc, away.cc, and wait_for_epochs of waiting.cc. Fences are full ones: the scheme
// uses no membarrier.
//
// Invariant: an object is freed after the last use by every thread that could see it. One thread at
// a time changes a record whose handle changes hands.
// Bound: 3 threads that arrive while the others run; one reads in 3 operations, one unlinks and
// reports 5 times more or leaves, one reads, unlinks, or is away between two operations; 3 objects.
#include "nearmalloc/reclaim/impl/owner_word.hpp"
#include "nearmalloc/reclaim/impl/quiescence.hpp"
#include "retired.h"

namespace near::reclaim::impl {

void yield() noexcept { rl::yield(1, debug_info(Place::current())); }

}  // namespace near::reclaim::impl

namespace near::model {
namespace {

using namespace reclaim::impl;

Witness epochs_advanced("epochs advanced");
Witness epochs_blocked("scans that found a thread in an older epoch");
Witness returns("threads that came back");
Witness objects_adopted("objects adopted from a thread that left");
Witness away_adopted("records adopted while the thread that gave them away waits");
Witness objects_awaited("objects freed after synchronize");

struct Record {
  EpochWords<Record> epoch;
  Plain<Record*> next;
  OwnerWord owner;
  Plain<bool> is_present;
  Limbo limbo;
  Atomic<uint32_t> left{0};  // 1: it parked
  Plain<uint64_t> parked_until;
};

// What the suites share.
class Reporting {
 protected:
  Reporting() : source_(&objects_[0]) {
    for (Object& each : objects_) each.make();
  }

  // Core::attach: a record is in the list before its thread arrives.
  void attach(Record& record) {
    record.limbo.init(record.epoch.seen);
    add_record(records_, record);
    come_back(record);
  }

  void come_back(Record& record) {
    if (mutated("a thread arrives without a look at the epoch")) {
      record.epoch.seen = clock_.epoch.load(kAcquire);
      if (choose(2) == 0) has_advanced_.wait();
      (void)announce_seen(clock_, record.epoch, false);
    } else if (mutated("a thread reads before it is back")) {
      read();
      settle(clock_, record.epoch, false);
    } else {
      settle(clock_, record.epoch, false);
    }
    enter_epoch(record);
  }

  void go_away(Record& record) { unannounce(record.epoch); }

  // report_slow
  void report(Record& record) {
    bool is_new = false;
    if (mutated("a report announces the next epoch")) {
      const uint64_t epoch = clock_.epoch.load(kAcquire);
      record.epoch.announced.store((epoch + 1) << 1 | 1, kRelease);
      record.epoch.seen = epoch + 1;
      is_new = true;
    } else if (mutated("a report withdraws the announcement first")) {
      go_away(record);
      is_new = report_quiescent(clock_, record.epoch);
    } else {
      is_new = report_quiescent(clock_, record.epoch);
    }
    if (is_new) enter_epoch(record);
    check(record);
  }

  void enter_epoch(Record& record) {
    record.limbo.advance(record.epoch.seen, mutated("two bags") ? 2 : kEpochBags);
    for (Record* each = records_.load(kAcquire); each != nullptr; each = each->next) adopt(*each);
  }

  // check_epochs, which scans until it is blocked, or not at all
  void check(Record& record) {
    if (choose(3) == 0) return;
    for (;;) {
      const Scan scan = scan_step(clock_, records_, record.epoch, false);
      if (scan == Scan::advanced) epochs_advanced.note();
      if (scan == Scan::blocked) epochs_blocked.note();
      if (scan == Scan::blocked && mutated("a blocked scan goes on")) {
        record.epoch.cursor = record.epoch.cursor->next;
        if (record.epoch.cursor != nullptr) continue;
      }
      if (scan != Scan::going) return;
    }
  }

  void park(Record& record) {
    const uint64_t grace = mutated("what is left waits for two epochs only") ? 2 : kGrace;
    record.parked_until = clock_.epoch.load(kAcquire) + grace;
    go_away(record);
    record.left.store(1, kRelease);
  }

  void adopt(Record& record) {
    uint32_t expected = 1;
    if (!record.left.compare_exchange_strong(expected, 2, kAcquire, kRelaxed)) return;
    const bool is_safe = clock_.epoch.load(kAcquire) >= record.parked_until;
    if (is_safe && record.limbo.count() > 0) objects_adopted.note();
    if (is_safe) record.limbo.free_all();
    record.left.store(1, kRelease);
  }

  // Away and Core::wait_for_epochs, without the fence there: QSBR does not need it
  void synchronize(Record& me) {
    go_away(me);
    wait_for_epochs();
  }

  void wait_for_epochs() {
    const uint64_t start = clock_.epoch.load(kAcquire);
    EpochWords<Record> words;
    const uint64_t wait = mutated("synchronize waits for two epochs") ? 2 : kEpochsToWait;
    for (;;) {
      words.seen = clock_.epoch.load(kAcquire);
      if (words.seen >= start + wait) return;
      Scan scan = Scan::going;
      while (scan == Scan::going) scan = scan_step(clock_, records_, words, false);
      if (scan != Scan::advanced) rl::yield(1, debug_info(Place::current()));
    }
  }

  void read() const { source_.load(kAcquire)->touch(); }
  Object* unlink(uint32_t fresh) { return source_.exchange(&objects_[fresh], kAcqRel); }
  void replace(Record& record, uint32_t fresh) {
    if (mutated("a thread retires before it unlinks")) {
      Object* const old = source_.load(kAcquire);
      record.limbo.push(old);
      report(record);
      unlink(fresh);
    } else {
      record.limbo.push(unlink(fresh));
    }
  }

  EpochClock clock_;
  Gate has_advanced_;
  Atomic<Record*> records_{nullptr};
  Record rooms_[3];
  Object objects_[3];
  Atomic<Object*> source_;
};

class Reports : public FencedSuite<Reports>, Reporting {
 public:
  void thread(unsigned index) {
    Record& record = rooms_[index];
    attach(record);
    if (index == 0) {
      for (int i = 0; i < 3; i++) read_and_report(record);
      go_away(record);
    } else if (index == 1) {
      replace(record, 1);
      if (choose(3) == 0) return park(record);
      for (int i = 0; i < 5; i++) report(record);
      go_away(record);
    } else {
      for (int i = 0; i < 3; i++) read_or_replace(record);
      go_away(record);
    }
  }

 private:
  void read_and_report(Record& record) {
    Object* const object = source_.load(kAcquire);
    object->touch();
    if (mutated("a thread reports while it holds a pointer")) {
      report(record);
      object->touch();
    } else {
      report(record);
    }
  }

  void read_or_replace(Record& record) {
    switch (choose(4)) {
      case 0:
        go_away(record);
        returns.note();
        come_back(record);
        return read();
      case 1:
        if (!replaced_) {
          replaced_ = true;
          replace(record, 2);
        }
        return report(record);
      default:
        return read_and_report(record);
    }
  }

  bool replaced_ = false;
};

// A reader arrives while another thread advances the epoch as fast as it can.
class Arrival : public FencedSuite<Arrival>, Reporting {
 public:
  void before() {
    for (uint32_t i : {2, 1, 0}) {
      rooms_[i].limbo.init(rooms_[i].epoch.seen);
      add_record(records_, rooms_[i]);
    }
  }

  void thread(unsigned index) {
    Record& record = rooms_[index];
    if (index == 0) {
      if (choose(2) == 0) has_advanced_.wait();
      come_back(record);
      read();
      go_away(record);
    } else if (index == 1) {
      come_back(record);
      replace(record, 1);
      for (int i = 0; i < 5; i++) report(record);
      go_away(record);
    } else {
      for (int i = 0; i < 5; i++) {
        if (i == 3) has_advanced_.open();
        record.epoch.seen = clock_.epoch.load(kAcquire);
        while (scan_step(clock_, records_, record.epoch, false) == Scan::going) pause();
      }
    }
  }
};

class Synchronize : public FencedSuite<Synchronize>, Reporting {
 public:
  void thread(unsigned index) {
    Record& record = rooms_[index];
    attach(record);
    if (index == 1) {
      Object* old = unlink(1);
      synchronize(record);
      old->destroy();
      objects_awaited.note();
      return;
    }
    for (int i = 0; i < 3; i++) {
      read();
      report(record);
    }
    go_away(record);
  }
};

// A thread waits while the thread to which it gave a handle adopts it, and then reads.
class Adoption : public FencedSuite<Adoption>, Reporting {
 public:
  void before() {
    for (Record& each : rooms_) {
      attach(each);
      each.is_present = true;
    }
    given_.owner.set(kMaker);
  }

  void thread(unsigned index) {
    if (index == 0) return wait(rooms_[0]);
    if (index == 1) return adopt_and_read();
    replace(rooms_[2], 1);
    for (int i = 0; i < 5; i++) report(rooms_[2]);
    go_away(rooms_[2]);
  }

 private:
  static constexpr int32_t kMaker = 1;
  static constexpr int32_t kAdopter = 2;

  // for_each_own: the maker has one record beside its own
  template <class F>
  void if_still_own(F f) {
    if (mutated("a thread that waits does not hold its records")) {
      if (given_.owner.thread() == kMaker) f();
      return;
    }
    if (!given_.owner.try_hold(kMaker)) return;
    f();
    given_.owner.release(kMaker);
  }

  void return_if_away() {
    if (given_.is_present) return;
    come_back(given_);
    given_.is_present = true;
  }

  void wait(Record& me) {
    Object* const old = unlink(2);
    go_away(me);
    if_still_own([&] {
      given_.is_present = false;
      go_away(given_);
    });
    wait_for_epochs();
    old->destroy();
    objects_awaited.note();
    if_still_own([&] { return_if_away(); });
  }

  void adopt_and_read() {
    given_.owner.adopt(kAdopter);
    if (!given_.is_present) away_adopted.note();
    if (!mutated("an adopted record stays away")) return_if_away();
    given_.owner.release(kAdopter);
    for (int i = 0; i < 3; i++) {
      read();
      report(given_);
    }
    go_away(given_);
  }

  Record& given_ = rooms_[1];
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Reports>("report, retire, leave", Random{200'000}),
    explore<Arrival>("arrive", Random{100'000}),
    explore<Synchronize>("synchronize", Random{150'000}),
    explore<Adoption>("adopt a handle", Random{50'000}),
};

const std::vector<Mutation> kMutations = {
    {"an arrival without a fence", "epoch.hpp", "::announce(", kSeqCst, kRelaxed},
    {"a scan without a fence", "epoch.hpp", "scan_step", kSeqCst, kRelaxed},
    {"an announcement is not acquired", "epoch.hpp", "scan_step", kAcquire, kRelaxed,
     "announced.load"},
    {"an advance does not release", "epoch.hpp", "scan_step", kRelease, kRelaxed,
     "compare_exchange"},
    {"a report does not release", "quiescence.hpp", "report_quiescent", kRelease, kRelaxed},
    {"a report does not acquire the epoch", "quiescence.hpp", "report_quiescent", kAcquire,
     kRelaxed},
    {"a departure does not release", "epoch.hpp", "::unannounce(", kRelease, kRelaxed},
    {"a record is not released", "record_list.hpp", "add_record", kAcqRel, kAcquire},
    {"a record is adopted without an acquire", "owner_word.hpp", "adopt", kAcquire, kRelaxed},
    {"a held record is not released", "owner_word.hpp", "::release(", kRelease, kRelaxed},
    {"two bags"},
    {"a blocked scan goes on"},
    {"a thread arrives without a look at the epoch"},
    {"a thread reads before it is back"},
    {"a report announces the next epoch"},
    {"a report withdraws the announcement first"},
    {"a thread reports while it holds a pointer"},
    {"a thread retires before it unlinks"},
    {"what is left waits for two epochs only"},
    {"synchronize waits for two epochs"},
    {"a thread that waits does not hold its records"},
    {"an adopted record stays away"},
};

}  // namespace near::model

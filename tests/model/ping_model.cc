// Model of ping_epochs: DEBRA (reclaim/impl/epoch.hpp) and hazard pointers (hazard.hpp) at once.
// Mirrors ping_epochs of reclaim/schemes.hpp, look_at_hazards of reclaim/hazards.cc.
//
// Invariant: either rule frees an object after the last use by every thread that validated its
// pointer inside a pin.
// Bound: 3 threads; two pin 2 times and protect, of which one unlinks as well; one unlinks 2 times,
// scans or not, looks at the hazards or not, and pins 4 times; 4 objects.
#include "nearmalloc/reclaim/impl/epoch.hpp"
#include "nearmalloc/reclaim/impl/hazard.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "retired.h"

namespace near::model {
namespace {

using namespace reclaim::impl;

Witness freed_by_epoch("objects freed by the epoch");
Witness freed_by_hazards("objects freed by a look at the hazards");

struct Record {
  EpochWords<Record> epoch;
  HazardWords hazards;
  Plain<Record*> next;
  Limbo limbo;
};

class Ping : public FencedSuite<Ping> {
 public:
  Ping() : asymmetric_(choose(2) == 1), source_(&objects_[0]) {
    for (Object& each : objects_) each.make();
  }
  void before() {
    for (Record& each : rooms_) {
      each.limbo.init(each.epoch.seen);
      add_record(records_, each);
    }
  }

  void thread(unsigned index) {
    Record& record = rooms_[index];
    if (index == 0) {
      for (int i = 0; i < 2; i++) read(record);
    } else if (index == 1) {
      replace(record, 1);
      if (choose(2) == 1) replace(record, 2);
      for (int i = 0; i < 4; i++) {
        pin(record);
        unpin(record);
      }
    } else {
      read(record);
      replace(record, 3);
    }
  }

 private:
  void pin(Record& record) {
    if (!announce_seen(clock_, record.epoch, asymmetric_)) {
      settle(clock_, record.epoch, asymmetric_);
      const uint32_t before = record.limbo.count();
      record.limbo.advance(record.epoch.seen, kEpochBags);
      if (record.limbo.count() < before) freed_by_epoch.note();
    }
    for (uint32_t looks = choose(4); looks > 0; looks--) {
      if (scan_step(clock_, records_, record.epoch, asymmetric_) != Scan::going) return;
    }
  }
  void unpin(Record& record) { unannounce(record.epoch); }

  void read(Record& record) {
    if (!mutated("protect outside of a pin")) pin(record);
    SlotRow row;
    Object* object = mutated("the source is not protected")
                         ? source_.load(kAcquire)
                         : record.hazards.protect(row, 0, source_, asymmetric_);
    object->touch();
    record.hazards.give_back(row);
    if (!mutated("protect outside of a pin")) unannounce(record.epoch);
  }

  void replace(Record& record, uint32_t fresh) {
    pin(record);
    record.limbo.push(source_.exchange(&objects_[fresh], kAcqRel));
    if (choose(2) == 1) scan_all(record);
    if (choose(2) == 1) look_at_hazards(record);
    unpin(record);
  }

  // scan_epochs, by a thread that is in the middle of an operation.
  void scan_all(Record& record) {
    while (scan_step(clock_, records_, record.epoch, asymmetric_) == Scan::going) {
    }
  }

  void look_at_hazards(Record& record) {
    if (!mutated("a look without a fence")) heavy_fence(asymmetric_);
    const void* held[kRoom];
    uint32_t count = 0;
    collect_hazards(records_, [&](const void* object) { held[count++] = object; });
    const uint32_t before = record.limbo.count();
    record.limbo.sift([&](const Object* object, uint64_t) {
      return std::find(held, held + count, object) != held + count;
    });
    if (record.limbo.count() < before) freed_by_hazards.note();
  }

  static constexpr uint32_t kRoom = kThreads * kHazardSlots;
  const bool asymmetric_;
  EpochClock clock_;
  Atomic<Record*> records_{nullptr};
  Record rooms_[3];
  Object objects_[4];
  Atomic<Object*> source_;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Ping>("protect, retire, advance, look", Random{300'000}),
};

const std::vector<Mutation> kMutations = {
    {"hold without a fence", "hazard.hpp", "::hold(", kSeqCst, kRelaxed},
    {"clear does not release", "hazard.hpp", "::empty(", kRelease, kRelaxed},
    {"a slot is not acquired", "hazard.hpp", "collect_hazards", kAcquire, kRelaxed,
     "slots[i].load"},
    {"unpin does not release", "epoch.hpp", "::unannounce(", kRelease, kRelaxed},
    {"a look without a fence"},
    {"the source is not protected"},
    {"protect outside of a pin"},
};

}  // namespace near::model

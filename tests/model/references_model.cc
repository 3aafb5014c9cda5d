// Model of counted references (reclaim/impl/reference_count.hpp) whose location's share is given up
// when a look at the hazards (hazard.hpp) finds the object in no slot. Mirrors atomic_shared_ptr of
// reclaim/shared.hpp, look_at_hazards of reclaim/hazards.cc.
//
// Invariant: an object is destroyed once, after the last use by every thread that has a reference
// or protects what it read; at rest each object that is in no location is destroyed.
// Bound: 3 threads, 2 locations that may name the same object, 3 objects. One loads, uses and gives
// up a reference, or moves it to the other location; one uses a snapshot, keeps it or not, and
// replaces what it saw; one stores and exchanges, and looks. Each looks at its end.
#include "nearmalloc/reclaim/impl/hazard.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "nearmalloc/reclaim/impl/reference_count.hpp"
#include "retired.h"

namespace near::model {
namespace {

using namespace reclaim::impl;

Witness one_of_several("references given up beside another one, kept for the slot");
Witness delayed("references that a slot kept from being given up");
Witness replaced("objects replaced by a thread that saw them");
Witness shared_late("references taken when the location had another object");

struct Counted {
  Object object;
  ReferenceCount references;
  bool is_destroyed = false;  // looked at when all threads have ended

  void let_go() {
    if (!references.let_go()) return;
    object.destroy();
    is_destroyed = true;
  }
};

struct Record {
  HazardWords hazards;
  Plain<Record*> next;
  Counted* retired[12] = {};
  uint32_t count = 0;
};

class References : public FencedSuite<References> {
 public:
  References() : asymmetric_(choose(2) == 1), places_{&all_[0], &all_[0]} {
    for (Counted& each : all_) each.object.make();
    all_[0].references.add();  // as it is in two locations
  }
  void before() {
    for (Record& each : rooms_) add_record(records_, each);
  }

  void thread(unsigned index) {
    Record& record = rooms_[index];
    if (index == 0) {
      load(record);
    } else if (index == 1) {
      look_and_replace(record);
    } else {
      store(record);
    }
    give_up(record);
  }

  void after() {
    for (Record& each : rooms_) {
      while (each.count > 0) give_up(each);
    }
    for (Counted& each : all_) {
      const bool is_named =
          places_[0].load(kRelaxed) == &each || places_[1].load(kRelaxed) == &each;
      expect(each.is_destroyed != is_named, "an object is not destroyed, or too soon");
    }
  }

 private:
  Counted* protect(Record& record, SlotRow& row, uint32_t place) {
    if (mutated("what is read is not protected")) return places_[place].load(kAcquire);
    return record.hazards.protect(row, 0, places_[place], asymmetric_);
  }

  // atomic_shared_ptr::load
  Counted* share(Record& record, uint32_t place) {
    SlotRow row;
    Counted* const counted = protect(record, row, place);
    if (places_[place].load(kRelaxed) != counted) shared_late.note();
    if (!mutated("a reference is not counted")) counted->references.add();
    record.hazards.give_back(row);
    return counted;
  }

  void load(Record& record) {
    Counted* const mine = share(record, choose(2));
    mine->object.touch();
    if (choose(2) == 1) {
      retire(record, places_[choose(2)].exchange(mine, kAcqRel));
    } else {
      mine->let_go();
    }
  }

  // A snapshot; compare_exchange by it.
  void look_and_replace(Record& record) {
    SlotRow row;
    const uint32_t place = choose(2);
    Counted* seen = protect(record, row, place);
    seen->object.touch();
    Counted* const before = seen;
    if (places_[place].compare_exchange_strong(seen, &all_[2], kAcqRel, kRelaxed)) {
      replaced.note();
      retire(record, before);
    } else {
      all_[2].let_go();
    }
    before->object.touch();
    record.hazards.give_back(row);
  }

  void store(Record& record) {
    const uint32_t place = choose(2);
    all_[1].references.add();  // this thread's own
    Counted* const before = places_[place].exchange(&all_[1], kAcqRel);
    const bool is_exchange = choose(2) == 1;
    if (is_exchange) before->references.add();
    retire(record, before);
    if (choose(2) == 1) give_up(record);
    if (is_exchange) {
      before->object.touch();
      before->let_go();
    }
    // The other location may get the same object.
    if (choose(2) == 1) {
      retire(record, places_[1 - place].exchange(&all_[1], kAcqRel));
    } else {
      all_[1].let_go();
    }
  }

  void retire(Record& record, Counted* counted) {
    if (mutated("a location's reference is given up at once")) return counted->let_go();
    record.retired[record.count++] = counted;
  }

  // look_at_hazards, and the deleters.
  void give_up(Record& record) {
    heavy_fence(asymmetric_);
    const void* held[kRoom];
    uint32_t count = 0;
    collect_hazards(records_, [&](const void* object) { held[count++] = object; });
    uint32_t kept = 0;
    for (uint32_t i = 0; i < record.count; i++) {
      Counted* const each = record.retired[i];
      const auto slots = std::count(held, held + count, each);
      if (std::count(record.retired, record.retired + kept, each) < slots) {
        record.retired[kept++] = each;
        delayed.note();
      } else {
        if (slots > 0) one_of_several.note();
        each->let_go();
      }
    }
    record.count = kept;
  }

  static constexpr uint32_t kRoom = kThreads * kHazardSlots;
  const bool asymmetric_;
  Atomic<Record*> records_{nullptr};
  Record rooms_[3];
  Counted all_[3];
  Atomic<Counted*> places_[2];
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<References>("share, replace, let go", Random{300'000}),
};

const std::vector<Mutation> kMutations = {
    {"let_go does not release", "reference_count.hpp", "::let_go(", kAcqRel, kAcquire},
    {"let_go does not acquire", "reference_count.hpp", "::let_go(", kAcqRel, kRelease},
    {"what is read is not protected"},
    {"a reference is not counted"},
    {"a location's reference is given up at once"},
};

}  // namespace near::model

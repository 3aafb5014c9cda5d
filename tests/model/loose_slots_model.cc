// Model of hazard slots that belong to no thread (reclaim/impl/loose_slots.hpp), and of objects
// that were set aside (reclaim/impl/aside.hpp). Mirrors hazard_pointer::try_protect of
// reclaim/std26/hazard_pointer.hpp, take_loose_slot and give_back_loose_slot of
// reclaim/loose_slots.cc, look_at_hazards of reclaim/hazards.cc, and adopt_aside_slow of
// reclaim/waiting.cc.
//
// Invariants: an object is freed after the last use by every thread that validated its pointer; a
// slot has one user at a time, and that finds it empty; what is set aside is taken once, with what
// was written before.
// Bound: 3 threads. Two protect twice each, in one slot or in two, of which the second may have
// been the other thread's; one unlinks two nodes and collects. Two threads set 2 objects aside
// each; one takes all up to three times, and sets one aside again.
#include "nearmalloc/reclaim/impl/aside.hpp"
#include "nearmalloc/reclaim/impl/loose_slots.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "retired.h"

namespace near::model {
namespace {

using namespace reclaim::impl;

Witness objects_held("objects that were kept for their holder");
Witness slots_reused("slots that another thread gave back");
Witness kept_in_vain("objects taken after they were set aside again");

struct Slot : LooseSlot {
  using LooseSlot::LooseSlot;
  Plain<Slot*> next;
  Plain<uint32_t> users;
};

class LooseSlots : public FencedSuite<LooseSlots> {
 public:
  LooseSlots() : source_(&nodes_[0]) { nodes_[0].make(); }

  void thread(unsigned index) {
    if (index == 2) {
      unlink_all();
    } else {
      Slot& slot = take(index, 0);
      protect(slot).touch();
      if (choose(2) == 1) {
        protect(slot).touch();
        return give_back(slot);
      }
      give_back(slot);
      Slot& next = take(index, 1);
      protect(next).touch();
      give_back(next);
    }
  }

 private:
  // take_loose_slot
  Slot& take(unsigned index, unsigned turn) {
    Slot* slot = take_free_slot(slots_);
    if (slot == nullptr) {
      slot = &rooms_[2 * index + turn];
      slot->users = 0;
      add_record(slots_, *slot);
    } else if (slot < &rooms_[2 * index] || slot > &rooms_[2 * index + 1]) {
      slots_reused.note();
    }
    slot->users = slot->users + 1;
    expect(slot->object.load(kRelaxed) == nullptr, "a slot is taken that holds something");
    return *slot;
  }

  // give_back_loose_slot
  void give_back(Slot& slot) {
    slot.users = slot.users - 1;
    slot.empty();
    give_back_slot(slot);
  }

  // hazard_pointer::protect
  const Object& protect(Slot& slot) {
    Object* object = source_.load(kRelaxed);
    for (;;) {
      Object* const old = object;
      slot.hold(old);
      object = source_.load(kAcquire);
      if (old == object || mutated("the source is not compared")) return *old;
      slot.empty();
    }
  }

  void unlink_all() {
    limbo_.init(0);
    for (uint32_t i = 0; i < 2; i++) {
      nodes_[i + 1].make();
      source_.store(&nodes_[i + 1], kRelease);
      limbo_.push(&nodes_[i]);
      if (i == 1 || choose(2) == 1) collect();
    }
    if (choose(2) == 1) collect();
  }

  // look_at_hazards
  void collect() {
    if (!mutated("a look without a fence")) heavy_fence(asymmetric_);
    const void* held[4];
    uint32_t count = 0;
    collect_loose(slots_, [&](const void* object) { held[count++] = object; });
    limbo_.sift([&](const Object* object, uint64_t) {
      const bool stays = std::find(held, held + count, object) != held + count;
      if (stays) objects_held.note();
      return stays;
    });
  }

  const bool asymmetric_ = choose(2) == 1;
  Atomic<Slot*> slots_{nullptr};
  Slot rooms_[4] = {Slot(asymmetric_), Slot(asymmetric_), Slot(asymmetric_), Slot(asymmetric_)};
  Object nodes_[3];
  Atomic<Object*> source_;
  Limbo limbo_;
};

struct Words {
  Plain<Words*> next;
  Plain<uint32_t> content;
  uint32_t times_taken = 0;
};

class SetAside : public FencedSuite<SetAside> {
 public:
  void thread(unsigned index) {
    if (index == 2) return take_some();
    for (uint32_t i = 0; i < 2; i++) {
      Words& words = rooms_[2 * index + i];
      words.content = 7;
      aside_.push(words);
    }
  }

  void after() {
    take_all(nullptr);
    for (const Words& each : rooms_) expect(each.times_taken == 1, "not taken exactly once");
  }

 private:
  void take_some() {
    take_all(&rooms_[choose(4)]);
    take_all(nullptr);
    if (choose(2) == 1) take_all(nullptr);
  }

  // adopt_aside_slow; there is no room for `unlucky`.
  void take_all(const Words* unlucky) {
    Words* words = aside_.take_all();
    while (words != nullptr) {
      Words& each = *words;
      words = each.next;
      expect(each.content == 7, "something set aside is not seen whole");
      if (&each == unlucky) {
        aside_.push(each);
        set_again_ = &each;
      } else {
        if (&each == set_again_) kept_in_vain.note();
        each.times_taken++;
      }
    }
  }

  Aside<Words> aside_;
  Words rooms_[4];
  const Words* set_again_ = nullptr;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<LooseSlots>("take, protect, give back, collect", Random{200'000}),
    explore<SetAside>("set aside and take", Random{50'000}),
};

const std::vector<Mutation> kMutations = {
    {"hold without a fence", "loose_slots.hpp", "::hold(", kSeqCst, kRelaxed},
    {"hold does not release what the slot held", "loose_slots.hpp", "::hold(", kRelease, kRelaxed},
    {"empty does not release", "loose_slots.hpp", "::empty(", kRelease, kRelaxed},
    {"a free slot is not acquired", "loose_slots.hpp", "take_free_slot", kAcquire, kRelaxed,
     "compare_exchange"},
    {"the slots are not acquired to take one", "loose_slots.hpp", "take_free_slot", kAcquire,
     kRelaxed, "head.load"},
    {"a slot that is given back is not released", "loose_slots.hpp", "give_back_slot", kRelease,
     kRelaxed},
    {"the slots are not acquired to collect", "loose_slots.hpp", "collect_loose", kAcquire,
     kRelaxed, "head.load"},
    {"a slot is not acquired", "loose_slots.hpp", "collect_loose", kAcquire, kRelaxed,
     "object.load"},
    {"what is set aside is not released", "aside.hpp", "::push(", kRelease, kRelaxed},
    {"what was set aside is not acquired", "aside.hpp", "::take_all(", kAcquire, kRelaxed},
    {"a look without a fence"},
    {"the source is not compared"},
};

}  // namespace near::model

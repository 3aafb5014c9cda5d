// Model of the lock of a limbo (reclaim/impl/owner_lock.hpp) and of adopting what a thread left
// behind. Mirrors push of reclaim/schemes.hpp; reuse, park, come_online, claim_parked, adopt_parked
// and adopt_idle of reclaim/core.cc; take_limbo and take_everything of reclaim/waiting.cc.
//
// Invariant: one thread at a time is in a limbo, and sees what the last one did; no retired object
// is lost or doubled. Where barriers and adopters exclude each other, a barrier has, when it ends,
// taken all objects that were retired before it.
// Bound: 3 threads. The owner retires 2 objects and leaves, or goes offline, comes back and retires
// a third; a barrier takes every thread's limbo once; a third thread retires, adopts what was left
// or takes from both others as from idle threads, and takes over the owner's record and retires
// there, or retires a second time.
#include "nearmalloc/reclaim/impl/owner_lock.hpp"
#include "nearmalloc/reclaim/impl/token.hpp"
#include "retired.h"

namespace near::reclaim::impl {

void yield() noexcept { rl::yield(1, debug_info(Place::current())); }

}  // namespace near::reclaim::impl

namespace near::model {
namespace {

using namespace reclaim::impl;

Witness taken_attached("limbos taken while their owner waits");
Witness taken_parked("limbos taken after their owner left");
Witness limbos_adopted("limbos adopted");
Witness idle_limbos_taken("limbos taken from attached threads without waiting");
Witness owners_inside("threads that were not idle");
Witness claims_met("adopters that met a claim");
Witness records_reused("records taken over");
Witness adopters_kept_out("adopters that met a barrier");
Witness barriers_checked("barriers that had to take what was retired before");

struct Record {
  Atomic<uint32_t> attached{kAttached};
  OwnerLock lock;
  Limbo limbo;
  Plain<bool> has_left;
};

class Handshake : public FencedSuite<Handshake> {
 public:
  void before() {
    asymmetric_ = choose(2) == 1;
    excludes_ = choose(2) == 1;
    for (Record& each : rooms_) {
      each.limbo.init(0);
      each.has_left = false;
    }
    for (Object& each : objects_) each.make();
  }

  void thread(unsigned index) {
    Record& mine = rooms_[index];
    if (index == 0) {
      own(mine);
    } else if (index == 1) {
      if (choose(2) == 0) owner_left_.wait();
      barrier(mine);
    } else {
      if (choose(2) == 0) retire(mine);
      if (choose(4) != 0) owner_left_.wait();
      if (choose(2) == 0) adopt_idle(mine);
      adopt_outside_barriers(mine);
      if (choose(2) == 0) return adopt_idle(mine);
      if (choose(2) == 0) return adopt_outside_barriers(mine);
      if (!reuse(rooms_[0])) return;
      records_reused.note();
      retire(rooms_[0]);
    }
  }

  void after() {
    uint32_t objects = 0;
    for (Record& each : rooms_) {
      objects += each.limbo.count();
      each.limbo.free_all();
    }
    expect(objects == retired_, "an object is lost, or there twice");
  }

 private:
  void own(Record& mine) {
    told_.store(retire(mine), kRelease);
    if (choose(2) == 0) retire(mine);
    const uint32_t state = choose(2) == 0 ? kFree : kOffline;
    park(mine, state);
    owner_left_.open();
    if (state == kFree) return;
    come_online(mine);
    retire(mine);
  }

  // Returns the object's number, from 1.
  uint32_t retire(Record& record) {
    record.lock.enter(asymmetric_);
    const uint32_t number = ++retired_;
    record.limbo.push(&objects_[number - 1]);
    pause();
    record.lock.leave();
    return number;
  }

  void park(Record& record, uint32_t state) {
    record.lock.enter(asymmetric_);
    record.has_left = record.limbo.count() > 0;
    record.lock.leave();
    record.attached.store(state, kRelease);
  }

  void come_online(Record& record) {
    for (;;) {
      uint32_t expected = kOffline;
      if (record.attached.compare_exchange_strong(expected, kAttached, kAcquire, kRelaxed)) break;
      yield();
    }
    record.has_left = false;
  }

  bool reuse(Record& record) {
    uint32_t expected = kFree;
    if (!record.attached.compare_exchange_strong(expected, kAttached, kAcquire, kRelaxed)) {
      return false;
    }
    record.has_left = false;
    return true;
  }

  uint32_t claim_parked(Record& record) {
    uint32_t state = record.attached.load(kRelaxed);
    if (state != kFree && state != kOffline) return kClaimed;
    return record.attached.compare_exchange_strong(state, kClaimed, kAcquire, kRelaxed) ? state
                                                                                        : kClaimed;
  }

  void adopt_parked(Record& into) {
    Record& record = rooms_[0];
    const uint32_t state = claim_parked(record);
    if (state == kClaimed) return;
    const bool is_claimed = record.lock.is_claimed(asymmetric_);
    if (is_claimed) claims_met.note();
    if (record.has_left && (!is_claimed || mutated("an adopter does not mind a claim"))) {
      give(record, into);
      record.has_left = false;
      limbos_adopted.note();
    }
    record.attached.store(state, kRelease);
  }

  void give(Record& record, Record& into) {
    into.lock.enter(asymmetric_);
    record.limbo.give_all_held(into.limbo);
    pause();
    into.lock.leave();
  }

  // Core::barrier: the records in any order. It ends with all objects retired before it.
  void barrier(Record& mine) {
    if (excludes_) lock_barriers();
    const uint32_t told = told_.load(kAcquire);
    const unsigned first = choose(2) == 0 ? 0 : 2;
    for (const unsigned each : {first, 2 - first}) take_from(rooms_[each], mine);
    if (told > 0 && excludes_) {
      barriers_checked.note();
      expect(mine.limbo.holds(&objects_[told - 1]), "a barrier missed what was adopted meanwhile");
    }
    if (excludes_) barriers_.store(0, kRelease);
  }

  // The barriers' mutex: pthread_mutex_lock, _trylock and _unlock.
  bool try_lock_barriers() {
    uint32_t expected = 0;
    return barriers_.compare_exchange_strong(expected, 1, kAcquire, kRelaxed);
  }
  void lock_barriers() {
    while (!try_lock_barriers()) yield();
  }

  void adopt_outside_barriers(Record& into) {
    if (!excludes_ || mutated("an adopter does not mind a barrier")) return adopt_parked(into);
    if (!try_lock_barriers()) return adopters_kept_out.note();
    adopt_parked(into);
    barriers_.store(0, kRelease);
  }

  // One fence for both claims; only where the barriers' mutex keeps other threads from claiming.
  void adopt_idle(Record& into) {
    if (!excludes_ || !try_lock_barriers()) return;
    Record* const others[] = {&rooms_[0], &rooms_[1]};
    for (Record* each : others) each->lock.begin_claim();
    if (!mutated("an adopter of idle limbos does not fence")) heavy_fence(asymmetric_);
    for (Record* each : others) {
      const bool is_inside = each->lock.is_owner_inside();
      if (is_inside) owners_inside.note();
      if (!is_inside || mutated("an adopter does not mind the owner")) take_idle(*each, into);
      each->lock.release();
    }
    barriers_.store(0, kRelease);
  }

  void take_idle(Record& record, Record& into) {
    if (record.attached.load(kAcquire) != kAttached) return;
    if (record.limbo.count() > 0) idle_limbos_taken.note();
    give(record, into);
  }

  void take_from(Record& record, Record& mine) {
    while (!take_limbo(record, mine)) yield();
  }

  bool take_limbo(Record& record, Record& mine) {
    record.lock.claim(asymmetric_);
    const bool attached = record.attached.load(kAcquire) == kAttached;
    if (attached || mutated("a barrier takes what is not attached")) {
      give(record, mine);
      taken_attached.note();
    }
    record.lock.release();
    if (attached || mutated("a barrier takes what is not attached")) return true;
    const uint32_t state = claim_parked(record);
    if (state == kClaimed) return false;
    give(record, mine);
    taken_parked.note();
    record.attached.store(state, kRelease);
    return true;
  }

  bool asymmetric_ = false;
  bool excludes_ = false;  // the mutex is there; without it the claims alone keep limbos whole
  uint32_t retired_ = 0;
  Atomic<uint32_t> told_{0};  // the owner's first object, counted from 1, for the barrier
  Atomic<uint32_t> barriers_{0};
  Gate owner_left_;
  Record rooms_[3];
  Object objects_[6];
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Handshake>("own, take, adopt", Random{300'000}),
};

const std::vector<Mutation> kMutations = {
    {"the owner enters without a fence", "owner_lock.hpp", "::enter(", kSeqCst, kRelaxed},
    {"a claim without a fence", "owner_lock.hpp", "::claim(", kSeqCst, kRelaxed},
    {"an adopter looks for a claim without a fence", "owner_lock.hpp", "::is_claimed(", kSeqCst,
     kRelaxed},
    {"the owner does not acquire", "owner_lock.hpp", "::enter(", kAcquire, kRelaxed},
    {"an owner that steps back does not release", "owner_lock.hpp", "::enter(", kRelease, kRelaxed},
    {"the owner does not release", "owner_lock.hpp", "::leave(", kRelease, kRelaxed},
    {"an adopter does not acquire", "owner_lock.hpp", "::is_claimed(", kAcquire, kRelaxed},
    {"a claim does not release", "owner_lock.hpp", "::release(", kRelease, kRelaxed},
    {"parking does not release", "owner_lock_model.cc", "::park(", kRelease, kRelaxed},
    {"coming back does not acquire", "owner_lock_model.cc", "::come_online(", kAcquire, kRelaxed},
    {"reuse does not acquire", "owner_lock_model.cc", "::reuse(", kAcquire, kRelaxed},
    {"claiming a record does not acquire", "owner_lock_model.cc", "::claim_parked(", kAcquire,
     kRelaxed},
    {"an adopter does not release", "owner_lock_model.cc", "::adopt_parked(", kRelease, kRelaxed},
    {"a barrier does not release", "owner_lock_model.cc", "::take_limbo(", kRelease, kRelaxed},
    {"an adopter of idle limbos does not acquire", "owner_lock.hpp", "::is_owner_inside(", kAcquire,
     kRelaxed},
    {"an adopter of idle limbos does not fence"},
    {"an adopter does not mind the owner"},
    {"an adopter does not mind a claim"},
    {"a barrier takes what is not attached"},
    {"an adopter does not mind a barrier"},
};

}  // namespace near::model

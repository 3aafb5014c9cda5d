// Model of the lock of a limbo (reclaim/impl/owner_lock.hpp) and of who may take what a thread
// left. Mirrors push of reclaim/schemes.hpp; reuse, park, come_online, claim_parked and
// adopt_parked of reclaim/core.cc; take_limbo and take_everything of reclaim/waiting.cc.
//
// Invariant: one thread at a time is in a limbo, and sees what the last one did; nothing that was
// retired is lost or doubled.
// Bound: 3 threads. The owner retires 2 objects and leaves, or goes offline, comes back and retires
// a third; a barrier takes everybody's once; a third thread retires, adopts, and takes over the
// owner's record and retires there, or adopts again.
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
Witness claims_met("adopters that met a claim");
Witness records_reused("records taken over");

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
      for (Record* each : {&rooms_[0], &rooms_[2]}) take_from(*each, mine);
    } else {
      if (choose(2) == 0) retire(mine);
      if (choose(4) != 0) owner_left_.wait();
      adopt_parked(mine);
      if (choose(2) == 0) return adopt_parked(mine);
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
    retire(mine);
    if (choose(2) == 0) retire(mine);
    const uint32_t state = choose(2) == 0 ? kFree : kOffline;
    park(mine, state);
    owner_left_.open();
    if (state == kFree) return;
    come_online(mine);
    retire(mine);
  }

  void retire(Record& record) {
    record.lock.enter(asymmetric_);
    record.limbo.push(&objects_[retired_++]);
    pause();
    record.lock.leave();
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
  uint32_t retired_ = 0;
  Gate owner_left_;
  Record rooms_[3];
  Object objects_[6];
};

}  // namespace
}  // namespace near::model

int main(int count, char** arguments) {
  using namespace near::model;
  const Exploration explorations[] = {
      explore<Handshake>("own, take, adopt", Random{300'000}),
  };
  constexpr auto kNone = rl::mo_relaxed;
  const near::Mutation mutations[] = {
      {"the owner enters without a fence", "owner_lock.hpp", "::enter(", rl::mo_seq_cst, kNone},
      {"a claim without a fence", "owner_lock.hpp", "::claim(", rl::mo_seq_cst, kNone},
      {"an adopter looks for a claim without a fence", "owner_lock.hpp", "::is_claimed(",
       rl::mo_seq_cst, kNone},
      {"the owner does not acquire", "owner_lock.hpp", "::enter(", rl::mo_acquire, kNone},
      {"an owner that steps back does not release", "owner_lock.hpp", "::enter(", rl::mo_release,
       kNone},
      {"the owner does not release", "owner_lock.hpp", "::leave(", rl::mo_release, kNone},
      {"a claim does not acquire", "owner_lock.hpp", "::claim(", rl::mo_acquire, kNone},
      {"an adopter does not acquire", "owner_lock.hpp", "::is_claimed(", rl::mo_acquire, kNone},
      {"a claim does not release", "owner_lock.hpp", "::release(", rl::mo_release, kNone},
      {"parking does not release", "owner_lock_model.cc", "::park(", rl::mo_release, kNone},
      {"coming back does not acquire", "owner_lock_model.cc", "::come_online(", rl::mo_acquire,
       kNone},
      {"reuse does not acquire", "owner_lock_model.cc", "::reuse(", rl::mo_acquire, kNone},
      {"claiming a record does not acquire", "owner_lock_model.cc", "::claim_parked(",
       rl::mo_acquire, kNone},
      {"an adopter does not release", "owner_lock_model.cc", "::adopt_parked(", rl::mo_release,
       kNone},
      {"a barrier does not release", "owner_lock_model.cc", "::take_limbo(", rl::mo_release, kNone},
      {"an adopter does not mind a claim"},
      {"a barrier takes what is not attached"},
  };
  return run_models(count, arguments, explorations, mutations);
}

// Model of a page or superblock that changes its heap while other threads free into it
// (designs/shared/owner.h). Mirrors Heap::keep_invariant and Heap::acquire of
// designs/hoard/heap.cc, and put_block of designs/hoard/heaps.cc.
//
// Invariants: a thread that frees into a superblock holds the lock of the heap that owns it; no
// other thread has it meanwhile; a heap's sum is that of its superblocks.
// Bound: 3 heaps, of which heap 0 is the global one; 1 superblock; 2 threads that each free twice,
// and give the superblock to the global heap if it is their own; one that takes it from there,
// twice.
#include "designs/shared/owner.h"
#include "runner.h"

namespace near::model {
namespace {

Witness given("superblocks given to the global heap");
Witness taken("superblocks taken from it");
Witness freed_elsewhere("frees into another heap's superblock");

struct Heap {
  explicit Heap(Rank rank) : lock(rank) {}
  Mutex lock;
  Plain<uint32_t> used;
};

struct Superblock {
  Atomic<uint32_t> owner{1};
  Plain<uint32_t> used;
};

class OwnerChange : public rl::test_suite<OwnerChange, 3> {
 public:
  void before() {
    for (Heap& heap : heaps_) heap.used = 0;
    superblock_.used = kBlocks;
    heaps_[1].used = kBlocks;
  }

  void thread(unsigned index) {
    for (int i = 0; i < 2; i++) {
      if (index == 2) {
        acquire(2);
      } else {
        free_and_give(index + 1);
      }
    }
  }

  void after() {
    const uint32_t owner = superblock_.owner.load(kRelaxed);
    expect(superblock_.used == kBlocks - 4, "a free is lost");
    for (uint32_t i = 0; i < 3; i++) {
      expect(heaps_[i].used == (i == owner ? kBlocks - 4 : 0), "a heap's sum is wrong");
    }
  }

 private:
  static constexpr uint32_t kBlocks = 8;

  uint32_t lock_owner() {
    const auto lock_of = [this](uint32_t owner) -> Mutex& { return heaps_[owner].lock; };
    if (!mutated("the owner is not read again")) {
      return design::lock_owner(superblock_.owner, lock_of);
    }
    const uint32_t owner = superblock_.owner.load(kRelaxed);
    heaps_[owner].lock.lock();
    return owner;
  }

  // put_block, Heap::put.
  void free_and_give(uint32_t me) {
    const uint32_t owner = lock_owner();
    expect(superblock_.owner.load(kRelaxed) == owner, "the owner changed under its lock");
    if (owner != me) freed_elsewhere.note();
    superblock_.used = superblock_.used - 1;
    heaps_[owner].used = heaps_[owner].used - 1;
    const bool early = mutated("the owner changes after its lock was released");
    if (early) heaps_[owner].lock.unlock();
    if (owner == me) give(owner);
    if (!early) heaps_[owner].lock.unlock();
  }

  // Heap::keep_invariant.
  void give(uint32_t from) {
    const bool locks = !mutated("the new owner's lock is not taken");
    if (locks) heaps_[0].lock.lock();
    superblock_.owner.store(0, kRelaxed);
    heaps_[from].used = heaps_[from].used - superblock_.used;
    heaps_[0].used = heaps_[0].used + superblock_.used;
    given.note();
    if (locks) heaps_[0].lock.unlock();
  }

  // Heap::acquire.
  void acquire(uint32_t to) {
    const LockGuard guard(heaps_[to].lock);
    const LockGuard global(heaps_[0].lock);
    if (superblock_.owner.load(kRelaxed) != 0) return;
    superblock_.owner.store(to, kRelaxed);
    heaps_[0].used = heaps_[0].used - superblock_.used;
    heaps_[to].used = heaps_[to].used + superblock_.used;
    taken.note();
  }

  Heap heaps_[3] = {Heap{Rank::registry}, Heap{Rank::heap}, Heap{Rank::heap}};
  Superblock superblock_;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<OwnerChange>("within 1 switch", Bounded{1}),
    explore<OwnerChange>("random", Random{100'000}),
};

const std::vector<Mutation> kMutations = {
    {"the owner is not read again"},
    {"the owner changes after its lock was released"},
    {"the new owner's lock is not taken"},
    {"a lock does not acquire", "mutex.h", "lock()", kAcquire, kRelaxed},
    {"an unlock does not release", "mutex.h", "unlock()", kRelease, kRelaxed},
};

}  // namespace near::model

// Model of how a node gets a shard (node/node.h: add; node/memory.cc: add_shard): the shard is
// published before it has any memory, with its lock `growing` held by its maker, while threads take
// runs from it and fork takes all locks. Mirrors Node::add, shard_for, lock_growing_for_fork and
// lock_for_fork, publish and add_shard of node/memory.cc, and Shard::take, add and region_after.
//
// Invariants: a shard below shard_count() has its number, and its lists may be read under its lock;
// a node has no more shards than it may, each with a table of its own; a thread that takes from a
// shard without memory gets some as soon as the maker has added it, and sees it whole; while fork
// holds the locks, no shard is being made.
// Bound: a node with 1 shard and 2 more at most; 2 threads that each make one and take a run from
// another one; a thread that looks at all shards, and forks.
#include "runner.h"
#include "sync/mutex.h"

namespace near::model {
namespace {

constexpr uint32_t kMost = 3;
constexpr uint32_t kChunks = 4;  // more than the threads take

Witness waited("runs taken from a shard that was found without memory");
Witness surplus("shards that came too late");

// Mirrors node/region.h: Region, in which one run is taken by a step of growing.
struct Region {
  Plain<uint32_t> table;
  Plain<uint32_t> chunks;  // guard: the shard's lock
};

// Mirrors node/shard.h: Shard.
struct Shard {
  Plain<uint32_t> number;
  Plain<Region*> regions;  // guard: lock
  Mutex growing{Rank::growing};
  Mutex lock{Rank::node};

  void add(Region& region) {
    const LockGuard guard(lock);
    regions = &region;
  }

  Region* take_mapped() {
    const LockGuard guard(lock);
    Region* region = regions;
    if (region == nullptr) return nullptr;
    expect(region->chunks > 0, "a region has no memory");
    region->chunks = region->chunks - 1;
    return region;
  }

  // Null if there is no memory although no thread makes some.
  Region* take() {
    if (Region* region = take_mapped()) return region;
    if (mutated("a thread does not wait for growing")) return take_mapped();
    const LockGuard guard(growing);
    Region* region = take_mapped();
    if (region != nullptr) waited.note();
    return region;
  }
};

// The names are those of node/node.h and node/memory.cc.
class Node {
 public:
  void init() {
    for (Shard& shard : shards_) shard.regions = nullptr;
    made_ = 0;
    publish(true);
    end_making(shards_[0]);
  }

  uint32_t shard_count() const { return count_.load(kAcquire); }

  Shard& shard(uint32_t number) { return *table_[number].load(kRelaxed); }

  Shard* add_shard() {
    if (shard_count() >= kMost) return nullptr;
    Shard* added = publish(false);
    if (added == nullptr) surplus.note();
    if (added != nullptr) end_making(*added);
    return added;
  }

  void lock_for_fork() {
    if (!mutated("fork does not lock the making")) making_.lock_for_fork();
    for (uint32_t i = 0; i < shard_count(); i++) shard(i).growing.lock_for_fork();
    locked_ = shard_count();
    for (uint32_t i = 0; i < locked_; i++) shard(i).lock.lock_for_fork();
  }

  void unlock_for_fork() {
    for (uint32_t i = 0; i < locked_; i++) shard(i).lock.unlock_for_fork();
    for (uint32_t i = 0; i < locked_; i++) shard(i).growing.unlock_for_fork();
    if (!mutated("fork does not lock the making")) making_.unlock_for_fork();
  }

 private:
  Shard* publish(bool first) {
    Mutex another{Rank::regions};
    Mutex& lock = mutated("each maker has a lock of its own") ? another : making_;
    const LockGuard guard(lock);
    const uint32_t count = first ? 0 : shard_count();
    if (count >= kMost && !mutated("the number of shards is not looked at again")) return nullptr;
    expect(count < kMost, "more shards than a node may have");
    Shard& shard = shards_[count];
    regions_[count].table = made_;
    made_ = made_ + 1;
    if (!mutated("a shard is published before its lock is held")) shard.growing.lock();
    if (mutated("a shard counts before it has its number")) count_.store(count + 1, kRelease);
    shard.number = count;
    table_[count].store(&shard, kRelaxed);
    count_.store(count + 1, kRelease);
    if (mutated("a shard is published before its lock is held")) shard.growing.lock();
    return &shard;
  }

  // Region::init and own_reserved, without a lock that other threads wait for at other shards.
  void end_making(Shard& shard) {
    if (mutated("growing ends before there is a region")) shard.growing.unlock();
    Region& region = regions_[shard.number];
    if (mutated("a region is added before it is whole")) shard.add(region);
    region.chunks = kChunks;
    if (!mutated("a region is added before it is whole")) shard.add(region);
    if (!mutated("growing ends before there is a region")) shard.growing.unlock();
  }

  Shard shards_[kMost];
  Region regions_[kMost];
  Plain<uint32_t> made_;  // tables; guard: making_
  Atomic<Shard*> table_[kMost];
  Atomic<uint32_t> count_{0};
  Mutex making_{Rank::regions};
  uint32_t locked_ = 0;
};

class Making : public rl::test_suite<Making, 3> {
 public:
  void before() { node_.init(); }

  void thread(unsigned index) {
    if (index == 2) return look_and_fork();
    make();
    take();
    if (index == 1) make();
  }

  void after() {
    expect(node_.shard_count() == kMost, "a shard was not made");
    for (uint32_t i = 0; i < kMost; i++) {
      expect(node_.shard(i).number == i, "a shard is not in its place");
      expect(node_.shard(i).regions->table == i, "two shards have one table");
    }
  }

 private:
  void make() { (void)node_.add_shard(); }

  void take() {
    Shard& shard = node_.shard(choose(node_.shard_count()));
    const Region* region = shard.take();
    expect(region != nullptr, "a shard has no memory, and no thread makes some");
    expect(region->table < kMost, "a region is not whole");
  }

  void look_and_fork() {
    for (uint32_t i = 0; i < node_.shard_count(); i++) {
      expect(node_.shard(i).number == i, "a shard that counts has no number");
    }
    take();
    node_.lock_for_fork();
    const uint32_t count = node_.shard_count();
    for (uint32_t i = 0; i < count; i++) {
      expect(node_.shard(i).regions != nullptr, "fork met a shard without memory");
    }
    node_.unlock_for_fork();
  }

  Node node_;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Making>("making", Random{200'000}),
};

const std::vector<Mutation> kMutations = {
    {"a thread does not wait for growing"},
    {"fork does not lock the making"},
    {"each maker has a lock of its own"},
    {"the number of shards is not looked at again"},
    {"a shard is published before its lock is held"},
    {"a shard counts before it has its number"},
    {"growing ends before there is a region"},
    {"a region is added before it is whole"},
    {"a shard is not released", "shards_model.cc", "::publish", kRelease, kRelaxed},
    {"a shard is not acquired", "shards_model.cc", "::shard_count", kAcquire, kRelaxed},
};

}  // namespace near::model

// One NUMA node's memory: its shards, and the pool of memory for the allocator's own structures.
//
// Why shards: with one lock for a node, 48 processors that allocate blocks of 40 KiB and more are
// slower than one. A node has at most as many shards as CPUs, and one if it has fewer than four. A
// shard is made when a heap comes that would have to share one, so a program with one thread has
// one shard, and a program with more threads than CPUs shares shards. Each heap takes its runs of
// slices from its own shard (docs/decisions/0019-many-processors.md).
//
// What keeps shards from hoarding: before a shard maps memory, it borrows a run from a shard of its
// node that has much dirty memory; if the system or the window refuses more, it takes from any. A
// borrowed run returns to the shard that it came from. Runs of more than kMostSharded slices come
// from shard 0, so that their address space is not cut into pieces.
// Invariant: shards below shard_count() exist, and never change; shard_count() >= 1. A shard may be
// found before it has memory: then its maker holds its lock `growing` until it has some.
// tests/model/shards_model.cc
// Thread-safety: any thread. `making` guards the number of shards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "node/shard.h"
#include "sync/bump_pool.h"
#include "sync/mutex.h"

namespace near {

inline constexpr unsigned kMaxShards = 256;   // of one node
inline constexpr uint32_t kMostSharded = 64;  // slices: 4 MiB

// The most shards of a node with so many CPUs. Threads on two or three CPUs seldom wait for one
// lock, and what is free in one of two shards would not serve the other.
constexpr unsigned most_shards_for(unsigned cpus) {
  constexpr unsigned kLeastCpus = 4;
  return cpus < kLeastCpus ? 1 : static_cast<unsigned>(min_of(cpus, kMaxShards));
}

class alignas(128) Node {
 public:
  // Called at start: the node may have up to `most` shards, and has one.
  void init(unsigned number, unsigned most);

  unsigned number() const { return number_; }
  unsigned shard_count() const { return 1 + added_.load(kAcquire); }  // pairs: shard-made
  unsigned most_shards() const { return most_; }
  Shard& shard(unsigned number) {
    return number == 0 ? first_ : *more_[number - 1].load(kRelaxed);  // relaxed: see shard_count
  }
  // The shard of a thread or heap with this number; it exists.
  Shard& shard_for(uint32_t number) {
    const unsigned count = shard_count();
    return count == 1 ? first_ : shard(number % count);
  }

  // Counts one more heap of the node; returns how many there were.
  // relaxed: the numbers only have to differ
  uint32_t count_heap() { return heaps_.fetch_add(1, kRelaxed); }

  // Adds a shard, which need not have a region yet. Requires `making`.
  void add(Shard& shard) {
    const unsigned count = shard_count();
    shard.init(*this, count);
    more_[count - 1].store(&shard, kRelaxed);  // relaxed: published by the count
    added_.store(count, kRelease);             // pairs: shard-made
  }

  // Takes a run of slices for a user of `home`, a shard of this node; null if there is none (errno
  // is unchanged). `zero`: all of it reads as zero. The caller may hold a heap's lock.
  Span* take(Shard& home, const RunRequest& request, bool& zero);

  // The functions below apply the function of the same name to each shard: sums, or until done.
  size_t purge(uint32_t age_ms, bool (*is_over)());
  size_t trim(size_t keep_bytes);
  void keep(size_t bytes);
  void obey_limits();
  bool has_room(uint32_t slices);
  size_t dirty_bytes();
  bool has_unused();
  uint64_t gives();
  Shard::Totals totals();
  size_t check();

  template <typename Visit>
  void for_each_shard(Visit visit) {
    for (unsigned i = 0; i < shard_count(); i++) visit(shard(i));
  }
  template <typename Visit>
  void for_each_span(Visit visit) {
    for_each_shard([&](Shard& each) { each.for_each_span(visit); });
  }
  template <typename Visit>
  void for_each_chunk(Visit visit) {
    for_each_shard([&](Shard& each) { each.for_each_chunk(visit); });
  }

  template <typename Visit>
  void for_each_mapped(Visit visit) {
    for_each_shard([&](Shard& each) { each.for_each_mapped(visit); });
  }

  // Calls visit(start, bytes) for all memory that take_metadata got from the system.
  template <typename Visit>
  void for_each_pool(Visit visit) const {
    pool_.for_each_block(visit);
  }

  // Zeroed memory for the allocator's own structures, bound to the node; never given back. Null if
  // refused.
  void* take_metadata(size_t bytes);

  // Called around fork: the first two take and release the locks of making and growing, the others
  // the pool's lock and those of all shards.
  void lock_growing_for_fork();
  void unlock_growing_for_fork();
  void lock_for_fork();
  void unlock_for_fork();
  // Called in the child with all locks held.
  void restore_withdrawn();

 private:
  friend struct Layout;
  BumpPool::Block* map_pool(size_t bytes);
  Span* borrow(const Shard& home, const RunRequest& request, bool& zero);
  Span* take_anywhere(const Shard& home, const RunRequest& request, bool& zero);

  // All zero at first, so that the table of nodes costs no memory. What threads that start write
  // lies apart from what all read.
  unsigned number_ = 0;
  unsigned most_ = 0;
  Atomic<unsigned> added_{0};  // shards but the first
  Atomic<Shard*> more_[kMaxShards - 1] = {};
  Shard first_;
  alignas(128) BumpPool pool_;
  alignas(128) Atomic<uint32_t> heaps_{0};  // heaps that were made for the node
  Mutex lock_{Rank::node};                  // held to renew the pool

 public:
  // Held to make a shard. Taken before the locks of growing.
  alignas(128) Mutex making{Rank::regions};
};

size_t metadata_bytes();

}  // namespace near

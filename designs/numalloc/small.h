// The small objects of one class of one node: the freelist, and the bag that is being cut.
// Thread-safety: any thread; guarded by the lock, except statistics, which are read without it.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "designs/numalloc/bag.h"
#include "designs/numalloc/node_ring.h"
#include "designs/numalloc/sublist.h"
#include "designs/shared/ranks.h"

namespace near::design::numalloc {

struct NodeHeap;

// A number that changes under a lock and is read without it.
class Tally {
 public:
  void add(uint64_t more) { value_.store(get() + more, kRelaxed); }  // relaxed: under the lock
  uint64_t get() const { return value_.load(kRelaxed); }             // relaxed: a statistic

 private:
  Atomic<uint64_t> value_{0};
};

class alignas(64) SmallHeap {
 public:
  struct Statistics {
    Tally fetches;    // sub-lists that threads took from the ring
    Tally donations;  // sub-lists that threads gave
    Tally moved;      // objects in both
    Tally came_home;  // single objects that threads of other nodes freed
    Tally lent;       // single objects given to threads of other nodes that had no memory
    Tally carved;     // objects cut from bags
    Tally bags;       // bags taken from the region
  };

  // Objects for a thread of this node: from the freelist, or, if `may_carve`, from a bag. Empty if
  // there is none.
  Sublist fetch(NodeHeap& node, unsigned size_class, bool may_carve);
  // Takes objects of this node that a thread has too many of; `list` must not be empty.
  void donate(NodeHeap& node, const Sublist& list);
  // Takes an object of this node that a thread of another node, or without a heap, frees. False if
  // it is free already.
  bool come_home(NodeHeap& node, Object* object, uint32_t batch);
  // One object for a thread of a node that has no memory left; null if this node has none either.
  Object* lend(NodeHeap& node, unsigned size_class);

  const Statistics& statistics() const { return statistics_; }
  uint64_t free_objects() const { return ring_.objects(); }

  void lock_for_fork() { lock_.lock_for_fork(); }
  void unlock_for_fork() { lock_.unlock_for_fork(); }

 private:
  Sublist carve(NodeHeap& node, unsigned size_class, uint32_t wanted);

  Mutex lock_{kMiddleRank};
  NodeRing ring_;
  Bag bag_;
  Statistics statistics_;
};

}  // namespace near::design::numalloc

// The small objects of one class of one node: its freelist and the bag that is being cut.
// Thread-safety: any thread; everything is under the lock, statistics are read without it.
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
    Tally lent;       // single objects for threads of other nodes, which had no memory
    Tally carved;     // objects cut from bags
    Tally bags;       // bags taken from the region
  };

  // Objects for a thread of this node, from the freelist; and, `may_carve`, from a bag. Empty if
  // memory is refused.
  Sublist fetch(NodeHeap& node, unsigned size_class, bool may_carve);
  // Objects of this node that a thread has too many of. Not empty.
  void donate(NodeHeap& node, const Sublist& list);
  // An object of this node that a thread of another one frees. False if it is free already.
  bool come_home(NodeHeap& node, Object* object, uint32_t batch);
  // One object for a thread of a node that has no memory left; null if there is none here either.
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

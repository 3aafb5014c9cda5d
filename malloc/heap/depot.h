// The depots: where threads leave full magazines, and find them. One for each NUMA node, with a
// rack for each size class.
//
// A thread that frees blocks of others fills a magazine, and leaves it here with one atomic
// operation for up to 62 blocks; a thread of the node that runs out of blocks of the class takes it
// whole. So blocks stay on their node, and no word is written once for each block.
// A depot has a part for each kCpusOfPart CPUs of its node, because threads that meet in one word
// wait for each other: a thread leaves magazines in its own part, and looks for others in all.
// A depot holds at most kDepotBytes for each CPU; a thread that brings more gives the blocks back
// to their spans itself. What no thread has asked for since the purge thread's last round goes back
// to its spans too. docs/decisions/0019-many-processors.md
// Invariant: a magazine is in one stack of one part, or one thread has it, in one slot; a magazine
// in a stack of empty ones has no blocks. Parts are made once, before any thread uses magazines.
// tests/model/magazines_model.cc
// Thread-safety: any thread. No function waits for a lock, except for memory for new magazines.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/topology.h"
#include "span/magazine.h"
#include "sync/tagged_stack.h"

namespace near {

inline constexpr size_t kDepotBytes = 256 * kKiB;  // for each CPU

// A part of a depot. Threads spread over the parts, so that no word is written by more than a few.
class alignas(128) DepotPart {
 public:
  // Leaves a full magazine. False if the part would hold more than `most` bytes.
  bool leave(unsigned size_class, Magazine& full, size_t most);

  // Takes a magazine of the class; null if there is none.
  Magazine* take(unsigned size_class);

  bool is_empty(unsigned size_class) const { return racks_[size_class].full.is_empty(); }

  // Takes a magazine of the class for which no thread asked since the last `end_round`; null if
  // there is none. The purge thread.
  Magazine* take_surplus(unsigned size_class);
  // True if the class still has magazines. The purge thread.
  bool end_round(unsigned size_class);

  // Bytes of the blocks in the part's magazines.
  size_t bytes() const { return bytes_.load(kRelaxed); }  // relaxed: a statistic

  // The full magazines of a class.
  uint32_t count(unsigned size_class) const {
    const int32_t count = racks_[size_class].count.load(kRelaxed);  // relaxed: a statistic
    return count < 0 ? 0 : static_cast<uint32_t>(count);            // the push is counted last
  }

  Magazine* take_empty();  // null if there is none
  void leave_empty(Magazine& empty);

 private:
  struct alignas(64) Rack {
    TaggedStack full;
    Atomic<int32_t> count{0};
    Atomic<int32_t> lowest{0};  // of `count` since the last round, approximately
  };
  Magazine* pop(Rack& rack, unsigned size_class);

  Rack racks_[kClasses];
  alignas(64) TaggedStack empty_;
  alignas(64) Atomic<size_t> bytes_{0};
};

// A node's depot. `self` chooses the calling thread's part (by its heap's shard); a function that
// finds nothing there looks into the other parts. The functions with `self` require that the parts
// were made.
class Depot {
 public:
  static constexpr unsigned kCpusOfPart = 8;
  static constexpr unsigned kMostParts = 32;

  // Makes the parts, unless they exist. False if memory is refused. One thread at a time.
  bool make_parts(unsigned node);

  // Called before the first heap of the node gets magazines.
  void be_used() { used_.store(true, kRelaxed); }  // relaxed: PurgeMark orders it
  // False if no heap of the node has magazines.
  bool is_used() const { return used_.load(kRelaxed); }  // relaxed: as above

  // Leaves a full magazine. False if the thread's part is full; then the caller keeps the magazine.
  bool leave(uint32_t self, unsigned size_class, Magazine& full);
  // Takes a magazine of the class; null if there is none.
  Magazine* take(uint32_t self, unsigned size_class);
  bool is_empty(unsigned size_class) const;

  // Empty magazines for blocks of the node; each comes back here. `take_empty` makes one if there
  // is none; null if memory is refused.
  Magazine* take_empty(uint32_t self, unsigned node);
  void leave_empty(uint32_t self, Magazine& empty);

  size_t bytes() const;
  // As bytes(): the number of blocks, by class.
  void add_blocks(uint64_t* blocks_of_class) const;
  unsigned part_count() const { return count_.load(kAcquire); }  // pairs: depot-parts
  DepotPart& part(unsigned number) { return parts_[number]; }

 private:
  // Reads the count before `parts_`.
  DepotPart& part_of(uint32_t self) {
    const unsigned count = part_count();
    return parts_[self % count];
  }

  DepotPart* parts_ = nullptr;  // written before count_
  Atomic<unsigned> count_{0};
  Atomic<bool> used_{false};
  size_t most_ = 0;  // bytes of a part
};

// Makes the depots of all nodes. False if memory is refused. One thread at a time.
bool make_depots();

extern NEAR_HIDDEN Depot depots[kMaxNodes];

}  // namespace near

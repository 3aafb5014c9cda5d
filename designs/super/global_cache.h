// The global object cache of a bin. One lock guards it and the folios behind it: "the same global
// lock that is held when new objects are bump allocated". [Kim23 §2.2.4, §4.1]
// Invariant: as ListCache and FullestFit.
// Thread-safety: any thread, which may hold the locks of a processor's and a socket's cache.
#pragma once

#include "designs/shared/ranks.h"
#include "designs/super/fullest_fit.h"
#include "designs/super/list_cache.h"
#include "designs/super/section.h"

namespace near::design::super {

class alignas(64) GlobalCache {
 public:
  struct Totals {
    size_t accesses;  // how often its lock was taken for blocks
    size_t single;    // blocks allocated one at a time
    size_t filled;    // blocks allocated to fill it
    size_t drained;   // blocks freed because it was full
    size_t freed;     // blocks freed one at a time, or in whole lists
    size_t cached;    // blocks in its lists
    FullestFit::Totals folios;
  };

  void start(unsigned bin, BlockList* lists, List<Folio>* by_free);

  // Takes a list; a single block if there is no list and no fill; empty if memory is refused.
  BlockList take();

  // Moves up to `most` lists into the empty cache `into`; none if memory is refused.
  void take(ListCache& into, unsigned most);

  // Keeps the list; returns false and does nothing if there is no room and none can be made.
  bool put(const BlockList& list);

  // Keeps up to `most` of the lists of `from`.
  void put(ListCache& from, unsigned most);

  // Gives a block back to its folio. False if the block was not handed out.
  bool free(void* block);

  // Gives all blocks of the list, or all cached blocks, back to their folios.
  void free(const BlockList& list);
  void trim();

  Totals totals();
  Mutex& lock() { return lock_; }

 private:
  void refill();
  bool make_room();
  void drain(unsigned down_to);
  void free_all(BlockList list);
  unsigned half() const { return static_cast<unsigned>(max_of(lists_.capacity() / 2, 1)); }

  Mutex lock_{design::kInnerRank};
  ListCache lists_;
  uint64_t next_fill_ = 1;  // for Fill::doubling, in blocks
  FullestFit folios_;
  Totals totals_{};
};

extern GlobalCache global_caches[kBins];

}  // namespace near::design::super

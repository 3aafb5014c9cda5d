// The memory behind the caches: the folios of one bin. The fullest folio with room always gives the
// next block, so that the others may become empty. [Kuszmaul15 §2]
//
// One empty folio of small blocks is kept; the memory of the others goes back to the system, and
// that of a large block always does.
// Invariants: a folio with 0 < free <= per_folio is in by_free_[free], or purged and then in
// purged_; level f has its bit set in `levels_` iff by_free_[f] is not empty.
// Thread-safety: guarded by the lock of its bin's global cache.
#pragma once

#include "base/list.h"
#include "designs/shared/block_list.h"
#include "designs/super/bin.h"

namespace near::design::super {

class FullestFit {
 public:
  struct Totals {
    size_t in_use;  // blocks handed out, to programs or caches
    size_t chunks;
    size_t purged;  // folios given back
  };

  // Requires: `by_free` has room for per_folio + 1 lists, zeroed.
  void start(unsigned bin, List<Folio>* by_free);

  // Takes up to `wanted` blocks, in address order within a folio; empty if memory is refused.
  BlockList take(uint32_t wanted);

  // Returns false and does nothing if the block is free already or was never handed out.
  bool put(void* block);

  // Gives the memory of the empty folio that was kept, if any, back to the system.
  void trim();

  const Totals& totals() const { return totals_; }

 private:
  const Bin& bin() const { return kBinTable[bin_]; }
  Folio* with_room();
  Folio* fresh();
  void add(Folio* folio);
  void remove(Folio* folio);
  void purge(Folio* folio);

  unsigned bin_ = 0;
  uint32_t next_fresh_ = 0;  // index of the first folio of chunk_ that was never carved
  char* chunk_ = nullptr;    // the newest
  List<Folio>* by_free_ = nullptr;
  uint64_t levels_[Folio::kMaxBlocks / 64 + 1] = {};
  List<Folio> purged_;
  Totals totals_{};
};

// The start of the block that contains `pointer`, by its offset in its chunk; null in the header.
inline char* block_around(const Bin& bin, const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const size_t offset = address % kChunk;
  if (offset < bin.first) return nullptr;
  return reinterpret_cast<char*>(address - (offset - bin.first) % bin.size);
}

}  // namespace near::design::super

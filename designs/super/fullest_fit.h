// The memory behind the caches: the folios of one bin, of which always the fullest with room gives
// the next block, so that the others have a chance to become empty. [Kuszmaul15 §2]
//
// Of the empty folios of small blocks one is kept; the memory of others goes back to the system,
// that of a large block at once.
// Invariants: a folio with 0 < free <= per_folio is in by_free_[free], or purged and then in
// purged_; level f has its bit set in `levels_` iff by_free_[f] is not empty.
// Thread-safety: under the lock of its bin's global cache.
#pragma once

#include "base/list.h"
#include "designs/super/bin.h"
#include "designs/super/cached_list.h"

namespace near::super {

class FullestFit {
 public:
  struct Totals {
    size_t in_use;  // blocks handed out, to programs or caches
    size_t chunks;
    size_t purged;  // folios given back
  };

  // `by_free`: room for per_folio + 1 lists, zeroed.
  void start(unsigned bin, List<Folio>* by_free);

  // Up to `wanted` blocks, in the order of addresses within a folio; empty if memory is refused.
  CachedList take(uint32_t wanted);

  // False, and nothing is done, if it is free already or was never handed out.
  bool put(void* block);

  // Gives the memory of the empty folio back that was kept. True if there was one.
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
  char* chunk_ = nullptr;    // the youngest
  List<Folio>* by_free_ = nullptr;
  uint64_t levels_[Folio::kMaxBlocks / 64 + 1] = {};
  List<Folio> purged_;
  Totals totals_{};
};

// The start of the block of the bin that `pointer` is in, by its offset in its chunk.
inline char* block_around(const Bin& bin, const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const size_t offset = address % kChunk;
  if (offset < bin.first) return nullptr;
  return reinterpret_cast<char*>(address - (offset - bin.first) % bin.size);
}

}  // namespace near::super

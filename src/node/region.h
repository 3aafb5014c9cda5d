// A region: address space of one NUMA node, cut into 2 MiB chunks of 32 slices.
//
// Invariant of a chunk: dirty is a subset of free; bucket == longest_run(free); the chunk is in
// list [dirty != 0][bucket]. A slice is free, or belongs to a span, or is being purged (then to
// neither). Chunks below `committed_` are usable.
// Policy: take from the chunk whose longest run is the shortest that fits, dirty chunks first:
// chunks fill one after another, so whole huge pages stay free or stay full.
// Who may touch it: guarded by its node's lock, but for `contains`, `node` and the descriptors of
// live spans.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "span/layout.h"

namespace near {

// What pages a chunk asks for. `split`: huge ones until a part of it was purged, then small ones
// until all of it is.
enum class Pages : uint8_t { small, huge, split };

struct Chunk {
  uint32_t free;   // bit i: slice i is free
  uint32_t dirty;  // bit i: slice i is free and may hold pages
  uint32_t stamp;  // coarse ms when a slice became dirty last
  uint32_t next;   // neighbours in the bucket's list, kNoChunk at the ends
  uint32_t prev;
  uint8_t bucket;  // longest run of free slices
  bool in_dirty;   // which set of lists it is in
  Pages pages;
};

inline constexpr uint32_t kWholeChunk = ~uint32_t{0};  // a mask of all its slices

inline constexpr uint32_t kNoChunk = ~uint32_t{0};

// How many heaps there are: set by the registry, read where page sizes are chosen.
extern NEAR_HIDDEN Atomic<uint32_t> heaps_in_use;

class Region {
 public:
  // The descriptors and chunks lie in reserved memory that the region commits as it grows.
  void init(char* base, Span* spans, Chunk* chunks, uint32_t chunk_count, unsigned node);

  // Takes a run of slices; null if there is no room or the system refuses memory. `clean` tells how
  // many of them read as zero. The descriptor has `start`, `slices` and `region` set. The run
  // begins at a multiple of `alignment`, at least a slice.
  Span* take(uint32_t slices, uint32_t& clean, size_t alignment);

  // Makes `span` longer by the slices behind it, if they are free.
  bool extend(Span* span, uint32_t slices);

  // Gives back the slices of `span` from number `keep` on; with keep 0 the whole span.
  void give(Span* span, uint32_t keep, uint32_t now_ms);

  // The next chunk that may be purged: one with dirty slices whose last is at least `age_ms` old;
  // kNoChunk if none. Searches from chunk `from` upward.
  uint32_t find_purgeable(uint32_t from, uint32_t now_ms, uint32_t age_ms) const;

  // Withdraws the dirty slices of a chunk so that they can be purged without the lock, and puts
  // them back, those of `dirty` as they were (the system refused). Of a chunk of huge pages all
  // that is free: those make slices resident that were never used.
  uint32_t withdraw_dirty(uint32_t chunk);
  void put_back(uint32_t chunk, uint32_t slices, uint32_t dirty);

  // Pages of a span with live blocks were purged.
  void note_pages_purged(const Span& span) {
    adapt_pages(static_cast<uint32_t>((span.start - base_) >> kChunkShift), false);
  }

  char* chunk_start(uint32_t chunk) const { return base_ + (size_t{chunk} << kChunkShift); }
  bool contains(const void* address) const {
    return static_cast<size_t>(static_cast<const char*>(address) - base_) < bytes();
  }
  Span* span_at(const void* address) const {
    return &spans_[static_cast<size_t>(static_cast<const char*>(address) - base_) >> kSliceShift];
  }
  const Span& span(size_t slice) const { return spans_[slice]; }
  size_t bytes() const { return size_t{chunk_count_} << kChunkShift; }
  size_t committed_bytes() const { return size_t{committed_} << kChunkShift; }
  unsigned node() const { return node_; }
  size_t dirty_slices() const { return dirty_slices_; }
  size_t free_slices() const { return free_slices_; }
  const Chunk& chunk(uint32_t index) const { return chunks_[index]; }
  uint32_t commit_calls() const { return commit_calls_; }

  // Checks the invariants; returns the number of violations, each named on stderr.
  size_t check() const;

  Region* next = nullptr;  // of the same node, the first made first

 private:
  static constexpr unsigned kBuckets = kChunkSlices + 1;

  uint64_t find(uint32_t slices);
  uint32_t find_in_chunks(uint32_t slices) const;
  uint64_t find_across_chunks(uint32_t slices);
  bool is_free(uint64_t first, uint32_t slices) const;
  uint32_t claim(uint64_t first, uint32_t slices);
  void release(uint64_t first, uint32_t slices, uint32_t now_ms);
  bool commit_to(uint32_t chunk_end);
  void advise_pages(uint32_t begin, uint32_t end);
  void adapt_pages(uint32_t chunk, bool whole);
  bool grow(uint32_t chunks);
  void link(uint32_t chunk, unsigned bucket);
  void unlink(uint32_t chunk);
  void relink(uint32_t chunk);

  char* base_ = nullptr;
  Span* spans_ = nullptr;
  Chunk* chunks_ = nullptr;
  uint32_t chunk_count_ = 0;
  uint32_t committed_ = 0;    // chunks, the high-water mark
  uint32_t described_ = 0;    // chunks whose descriptors are committed
  uint32_t first_whole_ = 0;  // no wholly free chunk lies below
  unsigned node_ = 0;
  uint32_t commit_calls_ = 0;
  int32_t split_ = 0;  // chunks whose pages are split
  size_t dirty_slices_ = 0;
  size_t free_slices_ = 0;
  uint64_t filled_[2] = {0, 0};  // bit b: list [dirty][b] is not empty
  uint32_t heads_[2][kBuckets] = {};
};

}  // namespace near

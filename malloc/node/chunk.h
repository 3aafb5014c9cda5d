// A chunk: 2 MiB of address space of one node, 32 slices. Also lists of chunks by number.
//
// A region has an entry for every chunk of its window, and owns those other than `other`. An
// `absent` chunk of a region is address space without memory; a take maps it at need.
// Each slice of a mapped chunk is free, or belongs to a span, or is withdrawn while the system is
// called without the lock (away: to purge it; growing: to map the run that it is in).
// Invariant: free, away and growing are disjoint, and dirty is a subset of free | growing; an
// absent chunk has all of its slices free or growing.
// Thread-safety: guarded by the node's lock.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "span/layout.h"

namespace near {

inline constexpr uint32_t kWholeChunk = ~uint32_t{0};  // a mask of all its slices
inline constexpr uint32_t kNoChunk = ~uint32_t{0};

// What a heap or a large block asks a node for: a run of slices that begins at a multiple of
// `alignment`, at least a slice.
struct RunRequest {
  uint32_t slices;
  size_t alignment = kSliceSize;
  // False if much of the run may stay unwritten: huge pages would make that part resident too.
  bool dense = true;

  // A free run of this length has such a run in it, wherever it begins.
  uint32_t with_slack() const {
    return slices + static_cast<uint32_t>(alignment >> kSliceShift) - 1;
  }
};

// The page size that a chunk asks the system for. `split`: a chunk with small pages, because a part
// of it was purged, or because a run that is not dense was its first. The chunk has huge pages
// again once all of it was purged in place.
enum class Pages : uint8_t { small, huge, split };

// `other`: the chunk belongs to another node or to none; `lost`: other code in the process has
// mapped something there.
enum class Presence : uint8_t { other, absent, mapped, lost };

// The free runs in a group of neighbouring chunks. Runs that touch neither end of their chunk are
// not counted: the bucket of the chunk covers them.
struct Run {
  uint32_t head;     // free slices at the start
  uint32_t tail;     // free slices at the end
  uint32_t longest;  // slices of the longest run
  bool operator==(const Run&) const = default;
};

struct Links {  // kNoChunk at the ends
  uint32_t next;
  uint32_t prev;
};

// The lists in which a chunk with dirty slices waits to be purged. `in_part`: in the list of all
// such chunks; `whole`: also in that of the wholly free ones; `stuck`: in a list of its own kind,
// because the system refused to purge it.
enum class Waiting : uint8_t { no, in_part, whole, stuck };

struct Chunk {
  uint64_t stamp;    // coarse ms when a slice last became dirty
  uint32_t free;     // bit i: slice i is free
  uint32_t dirty;    // bit i: slice i is free and may hold old bytes
  uint32_t away;     // bit i: slice i is withdrawn to be purged
  uint32_t growing;  // bit i: slice i is withdrawn until its run is mapped
  Links fit;         // in the list of its longest run, or of absent chunks
  Links age;         // in the list of chunks that wait to be purged
  Links whole;       // in the list of those that are also wholly free
  Run above;         // the Run of an inner node of the tree of runs (node/run_tree.h)
  // How many chunks the region had before this one, at most kLate: constant. It may share a word
  // with `presence`, because that changes only under the shard's lock of growing, and map_growth
  // reads both under that lock alone.
  uint16_t order : 14;
  Presence presence : 2;
  uint8_t : 0;
  uint8_t bucket : 6;  // longest run of free slices
  bool in_dirty : 1;   // true: in the lists of chunks with dirty slices
  bool seam : 1;       // the chunk before is of another mapping, whatever the pages of both
  uint8_t : 0;
  Pages pages : 2;
  Waiting waiting : 2;
  uint8_t forks : 4;  // when the chunk was mapped (MappingCount::forks)

  static constexpr uint8_t kMoved = 15;  // `forks` of a chunk with moved pages (region_move.cc)
  static constexpr uint16_t kLate = (1 << 14) - 1;
  bool is_whole() const { return free == kWholeChunk; }
};
static_assert(sizeof(Chunk) == 64);

// A list through one pair of links in a table of chunks. Call clear() before anything else.
template <Links Chunk::* kLinks>
class ChunkList {
 public:
  void clear() { first_ = last_ = kNoChunk; }
  uint32_t front() const { return first_; }
  uint32_t back() const { return last_; }
  bool empty() const { return first_ == kNoChunk; }
  uint32_t after(const Chunk* chunks, uint32_t index) const { return (chunks[index].*kLinks).next; }

  void push_front(Chunk* chunks, uint32_t index) {
    chunks[index].*kLinks = {first_, kNoChunk};
    (first_ == kNoChunk ? last_ : (chunks[first_].*kLinks).prev) = index;
    first_ = index;
  }
  void push_back(Chunk* chunks, uint32_t index) {
    chunks[index].*kLinks = {kNoChunk, last_};
    (last_ == kNoChunk ? first_ : (chunks[last_].*kLinks).next) = index;
    last_ = index;
  }
  void remove(Chunk* chunks, uint32_t index) {
    const Links links = chunks[index].*kLinks;
    (links.prev == kNoChunk ? first_ : (chunks[links.prev].*kLinks).next) = links.next;
    (links.next == kNoChunk ? last_ : (chunks[links.next].*kLinks).prev) = links.prev;
  }

  // True if the chunk before this one, or the head of the list, links to it.
  bool has(const Chunk* chunks, uint32_t index) const {
    const uint32_t before = (chunks[index].*kLinks).prev;
    return (before == kNoChunk ? first_ : (chunks[before].*kLinks).next) == index;
  }

 private:
  uint32_t first_ = 0;  // not kNoChunk: an unused list is all zero and costs no memory
  uint32_t last_ = 0;
};

}  // namespace near

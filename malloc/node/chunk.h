// A chunk: 2 MiB of address space of one node, 32 slices; and lists of chunks by number.
//
// A region has one entry for every chunk of its window. It owns those that are not `other`; of
// those it owns, `absent` ones are address space without memory, which a take maps again.
// Invariant: free, away and growing are disjoint, and dirty is a subset of free and growing; an
// absent chunk has all of its slices free or growing. A slice is free, or withdrawn while the
// system is called without the lock (away: it is being purged; growing: the run that it is in is
// being mapped), or belongs to a span.
// Thread-safety: guarded by the node's lock.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "span/layout.h"

namespace near {

inline constexpr uint32_t kWholeChunk = ~uint32_t{0};  // a mask of all its slices
inline constexpr uint32_t kNoChunk = ~uint32_t{0};

// What pages a chunk asks for. `split`: huge ones until a part of it was purged, then small ones
// until all of it is; if it is unmapped then, also when it is mapped again.
enum class Pages : uint8_t { small, huge, split };

// `other`: of another node, or given to none; `lost`: another user of the process's address space
// sits there.
enum class Presence : uint8_t { other, absent, mapped, lost };

// Free slices of neighbouring chunks. Runs that touch neither end of their chunk do not count: they
// are found by their chunk's longest run.
struct Run {
  uint32_t head;     // slices that are free from the start on
  uint32_t tail;     // slices that are free at the end
  uint32_t longest;  // the longest run
  bool operator==(const Run&) const = default;
};

struct Links {  // kNoChunk at the ends
  uint32_t next;
  uint32_t prev;
};

// Where a chunk with dirty slices waits to be purged: with all others, with those that are wholly
// free as well, or (`stuck`) apart, because the system refused.
enum class Waiting : uint8_t { no, in_part, whole, stuck };

struct Chunk {
  uint64_t stamp;    // coarse ms when a slice became dirty last
  uint32_t free;     // bit i: slice i is free
  uint32_t dirty;    // bit i: slice i is free and may hold old bytes
  uint32_t away;     // bit i: slice i is withdrawn to be purged
  uint32_t growing;  // bit i: slice i is withdrawn until its run is mapped
  Links fit;         // in the list of its longest run
  Links age;         // in the list of those that wait to be purged
  Links whole;       // in the list of those that are wholly free besides
  Run above;         // of an inner node of the tree of runs (node/run_tree.h)
  // How many chunks the region had before this one, at most kLate: constant. It shares its word
  // with what changes under regions_lock as well: map_growth reads both under that lock alone.
  uint16_t order : 14;
  Presence presence : 2;
  uint8_t : 0;
  uint8_t bucket : 6;  // longest run of free slices
  bool in_dirty : 1;   // which set of lists it is in
  uint8_t : 0;
  Pages pages : 2;
  Waiting waiting : 2;

  static constexpr uint16_t kLate = (1 << 14) - 1;
  bool is_whole() const { return free == kWholeChunk; }
};
static_assert(sizeof(Chunk) == 64);

// A list through one pair of links of a table of chunks. It begins with clear().
template <Links Chunk::* kLinks>
class ChunkList {
 public:
  void clear() { first_ = last_ = kNoChunk; }
  uint32_t front() const { return first_; }
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

  // True if the chunk before it, or the list, says that it is the next.
  bool has(const Chunk* chunks, uint32_t index) const {
    const uint32_t before = (chunks[index].*kLinks).prev;
    return (before == kNoChunk ? first_ : (chunks[before].*kLinks).next) == index;
  }

 private:
  uint32_t first_ = 0;  // not kNoChunk: a list that is not in use costs no memory
  uint32_t last_ = 0;
};

}  // namespace near

// What the profiler knows of one allocation site: a stack, and sums over the sampled blocks that
// were allocated there.
//
// Every sum is weighted: a sampled block counts as one over its chance (heap/chance.h), so the
// sums estimate those of all blocks. Numbers of blocks are in units of 1 / kBlockUnit.
// Invariant: live = allocated - freed - what was not followed.
// Thread-safety: the profiler's lock; a copy belongs to the thread that asked for it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace near::profile {

inline constexpr unsigned kMaxFrames = 64;
inline constexpr uint64_t kBlockUnit = uint64_t{1} << 20;
// In place of a heap's number: that of a thread that has none.
inline constexpr uint32_t kNoHeap = ~uint32_t{0};
// An entry of a site's list of heaps that no heap has yet.
inline constexpr uint32_t kFreeEntry = kNoHeap - 1;

struct Weight {
  uint64_t blocks = 0;  // in units of 1 / kBlockUnit
  uint64_t bytes = 0;

  uint64_t whole_blocks() const { return (blocks + kBlockUnit / 2) / kBlockUnit; }

  Weight& operator+=(const Weight& other) {
    blocks += other.blocks;
    bytes += other.bytes;
    return *this;
  }
  Weight& operator-=(const Weight& other) {
    blocks -= other.blocks;
    bytes -= other.bytes;
    return *this;
  }
};

// The classes of lifetimes: below a millisecond, and then by powers of ten up to 100 s and above.
inline constexpr unsigned kLifetimes = 7;
// The last one stands for all nodes from there on.
inline constexpr unsigned kSiteNodes = 8;
// Heaps of freeing threads that a site tells apart: the first ones that freed a block of it.
inline constexpr unsigned kSiteHeaps = 4;

template <size_t kParts>
uint64_t rest_of(uint64_t whole, const uint64_t (&parts)[kParts]) {
  for (const uint64_t part : parts) whole -= part;
  return whole;
}

struct Site {
  uint64_t hash;   // of the frames
  uint16_t stack;  // index of its first frame
  uint16_t depth;
  uint32_t samples;  // blocks that were sampled, without weight
  Weight allocated;
  double variance;  // of allocated.bytes
  Weight live;
  double live_variance;
  Weight peak;  // live when all sites together were largest, if `peak_number` is the present
  uint64_t peak_number;
  Weight freed;
  Weight remote;            // of it freed by a thread with another heap
  Weight moved;             // of it freed by a thread on another node
  uint64_t moved_distance;  // bytes of `moved` x how far the thread was from the block
  uint64_t waste;           // bytes of allocated blocks beyond those asked for
  uint64_t live_waste;
  double lifetimes;         // seconds x blocks of `freed`
  double remote_lifetimes;  // of it those of `remote`
  double longest;           // in seconds
  // Of `freed`: blocks by their lifetimes, and bytes by the node. The last numbers are not stored,
  // because they are what the others lack of the whole.
  uint64_t by_lifetime[kLifetimes - 1];
  uint64_t freed_on_node[kSiteNodes - 1];
  uint32_t heaps[kSiteHeaps];          // that freed, kNoHeap among them; kFreeEntry behind the last
  uint64_t freed_by_heap[kSiteHeaps];  // bytes

  // Bytes of other heaps are those that the list lacks.
  void count_heap(uint32_t heap, uint64_t bytes) {
    for (unsigned i = 0; i < kSiteHeaps; i++) {
      if (heaps[i] == kFreeEntry) heaps[i] = heap;
      if (heaps[i] != heap) continue;
      freed_by_heap[i] += bytes;
      return;
    }
  }

  void count_node(unsigned node, uint64_t bytes) {
    if (node < kSiteNodes - 1) freed_on_node[node] += bytes;
  }

  // `is_remote`: the blocks count in `remote` too.
  void count_lifetime(double seconds, uint64_t blocks, bool is_remote) {
    unsigned index = 0;
    for (double limit = 1e-3; index < kLifetimes - 1 && seconds >= limit; limit *= 10) index++;
    if (index < kLifetimes - 1) by_lifetime[index] += blocks;
    const double sum = seconds * static_cast<double>(blocks) / kBlockUnit;
    lifetimes += sum;
    if (is_remote) remote_lifetimes += sum;
    if (seconds > longest) longest = seconds;
  }

  // Called before the live sum changes: keeps what it was at the peak.
  void keep_peak(uint64_t present) {
    if (peak_number == present) return;
    peak = live;
    peak_number = present;
  }

  // Adds the sums of another site. `present`: the number of the last peak.
  void add(Site& other, uint64_t present) {
    keep_peak(present);
    other.keep_peak(present);
    samples += other.samples;
    allocated += other.allocated;
    live += other.live;
    peak += other.peak;
    freed += other.freed;
    remote += other.remote;
    moved += other.moved;
    moved_distance += other.moved_distance;
    variance += other.variance;
    live_variance += other.live_variance;
    waste += other.waste;
    live_waste += other.live_waste;
    lifetimes += other.lifetimes;
    remote_lifetimes += other.remote_lifetimes;
    if (other.longest > longest) longest = other.longest;
    for (unsigned i = 0; i < kLifetimes - 1; i++) by_lifetime[i] += other.by_lifetime[i];
    for (unsigned i = 0; i < kSiteNodes - 1; i++) freed_on_node[i] += other.freed_on_node[i];
    for (unsigned i = 0; i < kSiteHeaps; i++) {
      if (other.freed_by_heap[i] > 0) count_heap(other.heaps[i], other.freed_by_heap[i]);
    }
  }

  uint64_t lived_longest() const { return rest_of(freed.blocks, by_lifetime); }
  uint64_t freed_on_last_nodes() const { return rest_of(freed.bytes, freed_on_node); }
  uint64_t freed_by_others() const { return rest_of(freed.bytes, freed_by_heap); }
};

}  // namespace near::profile

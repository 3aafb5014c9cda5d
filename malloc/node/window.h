// A window: address space where chunks can be mapped, planned and not reserved.
//
//   tables of chunks, one for each node │ descriptors │ heap
//
// Nothing of it exists before it is needed. Chunks are given to regions from the lowest on, in
// extents of neighbours, so that a node's memory has few neighbours of other nodes (each is a
// mapping of its own). Tables and descriptors of an extent are mapped when it is given away, the
// chunks themselves by their region. Mapping never moves another mapping: where somebody else sits
// already, the window ends.
// Invariant: chunks below `end` are given away, and have descriptors; end <= described <= planned.
// Thread-safety: guarded by regions_lock, except `contains` and `occupied`, which any thread may
// ask.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "node/chunk.h"
#include "platform/topology.h"
#include "span/address_map.h"
#include "sync/mutex.h"

namespace near {

// Serialises growth: whatever changes what is mapped or given away. Taken before a node's lock.
extern NEAR_HIDDEN Mutex regions_lock;

// Binds memory to a node as the option `bind` says. A refusal is counted.
void bind_to(unsigned node, void* start, size_t bytes);

class Window {
 public:
  // How much address space a window of so many chunks for so many nodes takes.
  static size_t bytes_for(uint32_t chunks, unsigned tables);

  // The window begins at `start`, a multiple of a chunk, and nothing of it is mapped yet; or
  // (`mapped`) all of it is, as one block of zeroes.
  void plan(char* start, uint32_t chunks, unsigned tables, bool mapped);

  // Gives away the lowest chunks that are left: `wished` of them, or as many as there are, at least
  // `least`. Returns how many: from `first` on; none if they are too few or refused.
  uint32_t give(uint32_t least, uint32_t wished, unsigned table, unsigned node, uint32_t& first);

  // No more chunks are given away: somebody else sits here.
  void end_here() {
    planned_ = end_;
    occupied_.store(true, kRelaxed);  // relaxed: a hint
  }
  bool occupied() const { return occupied_.load(kRelaxed); }  // relaxed: a hint

  // Where `give` tells how much has descriptors, besides described_bytes().
  void publish_to(GrowingSize& size) { published_ = &size; }

  // Unmaps tables and descriptors. Of a window that nobody knows yet.
  void vanish();

  char* base() const { return base_; }
  Span* spans() const { return spans_; }
  Chunk* table(unsigned number) const {
    return reinterpret_cast<Chunk*>(tables_ + number * table_bytes_);
  }
  uint32_t end() const { return end_; }
  uint32_t left() const { return planned_ - end_; }
  size_t described_bytes() const { return described_bytes_.load(kAcquire); }  // pairs: described
  bool contains(const void* address) const {
    return static_cast<size_t>(static_cast<const char*>(address) - base_) < described_bytes();
  }

 private:
  bool describe(uint32_t end);
  bool extend_table(unsigned table, uint32_t end, unsigned node);
  bool map(char* start, size_t bytes);

  char* start_ = nullptr;
  char* tables_ = nullptr;
  size_t table_bytes_ = 0;
  Span* spans_ = nullptr;
  char* base_ = nullptr;
  uint32_t planned_ = 0;
  uint32_t end_ = 0;
  uint32_t described_ = 0;
  Atomic<bool> occupied_{false};
  Atomic<size_t> described_bytes_{0};
  GrowingSize* published_ = nullptr;
  uint32_t table_ends_[kMaxNodes] = {};  // entries that are mapped
};

}  // namespace near

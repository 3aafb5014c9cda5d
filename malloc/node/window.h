// A window: addresses where chunks can be mapped, and their descriptors. It is planned, not
// reserved.
//
//   tables of chunks, one for each shard │ descriptors │ … │ heap
//
// The first window's heap lies at a place of its own, so that an address in it does not tell where
// descriptors are; in other windows it follows them.
// Nothing in it is mapped before it is needed. The window gives chunks to regions in extents of
// neighbouring chunks, the lowest first: memory of different nodes needs separate mappings, and
// extents keep their number low. An extent's table entries and descriptors are mapped when it is
// given away, or before; its chunks are mapped by the region. Mapping never replaces another
// mapping: where other code has mapped something already, the window ends.
// Invariant: chunks below `end` are given away, each to one region, which has a table entry for it,
// and have descriptors; end <= planned and end <= described. An address below described_bytes() has
// a descriptor, as seen by every thread that reads that number.
// Thread-safety: guarded by windows_lock; a table by the lock of growing of its region's shard. Any
// thread may call `contains`, `described_bytes`, `occupied`, `end_here`, `end` and `left`; the last
// two may be stale at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "node/chunk.h"
#include "span/address_map.h"
#include "sync/mutex.h"

namespace near {

// Held to give chunks of any window away. Taken after the locks of growing, before a shard's.
extern NEAR_HIDDEN Mutex windows_lock;

// How many chunks of a window the regions of a node may still get. Guard: windows_lock.
struct Budget {
  Plain<uint32_t> left = 0;
};

class Window {
 public:
  // The bytes of address space of a window of `chunks` chunks with `tables` tables.
  static size_t bytes_for(uint32_t chunks, unsigned tables);

  // The part of them that tables and descriptors have: whole chunks.
  static size_t head_bytes_for(uint32_t chunks, unsigned tables);

  // Plans a window at `start`, a multiple of a chunk. Nothing in it is mapped yet; or, with
  // `mapped`, all of it is mapped and reads as zero.
  void plan(char* start, uint32_t chunks, unsigned tables, bool mapped);

  // As plan, with the heap at a place of its own.
  void plan_apart(char* start, char* heap, uint32_t chunks, unsigned tables);

  // A region's table: its number, its node, and how many of its entries are mapped.
  struct Table {
    unsigned number;
    unsigned node;
    Plain<uint32_t>& end;
  };

  // Maps the entries of a table below `end`. False if the system refuses. Guard: the table's.
  bool extend_table(Table table, uint32_t end);

  // Gives away the lowest chunks that are left: `wished` of them, or all if fewer are left. Returns
  // their number and sets `first`. Returns 0 if it would be less than `least`, or if the system
  // refuses memory for descriptors.
  uint32_t give(uint32_t least, uint32_t wished, uint32_t& first);

  // Gets chunks for a region: as `give`, from the node's budget, with entries in the region's table
  // and bound descriptors. `lock` is windows_lock, which all shards share, so it covers neither the
  // call of the system that extends the table nor the one that binds. Guard: the table's.
  struct Wish {
    uint32_t least;
    uint32_t wished;
  };
  uint32_t get_chunks(Table table, Budget& budget, Mutex& lock, Wish wish, uint32_t& first);

  // Binds the descriptors of chunks that were given away to the node that owns the chunks. Needs no
  // lock.
  void bind_descriptors(uint32_t first, uint32_t count, unsigned node);

  // True if all entries of so many tables may be mapped, though most may never be touched: they are
  // a small part of the memory, and the system does not count what nobody touched. At start only.
  bool may_map_tables(unsigned count) const;

  // Maps all entries of neighbouring tables of a node with one system call. Returns the number of
  // entries of each; 0 if the process has a limit, or the system refuses.
  uint32_t map_tables(unsigned first, unsigned count, unsigned node);

  // Called when other code has mapped something here: no more chunks are given away.
  void end_here() { occupied_.store(true, kRelaxed); }        // relaxed: a hint
  bool occupied() const { return occupied_.load(kRelaxed); }  // relaxed: a hint

  // `give` also stores described_bytes() in `size`.
  void publish_to(GrowingSize& size) { published_ = &size; }

  // Unmaps the descriptors and the only used table, of which `entries` are mapped. No other thread
  // knows the window yet.
  void vanish(unsigned table, Plain<uint32_t>& entries);

  char* base() const { return base_; }
  const char* start() const { return start_; }
  const char* head_end() const { return head_end_; }  // of the descriptors
  Span* spans() const { return spans_; }
  Chunk* table(unsigned number) const {
    return reinterpret_cast<Chunk*>(tables_ + number * table_bytes_);
  }
  uint32_t end() const { return end_.load(kRelaxed); }  // relaxed: its guard orders it
  // Where it would end if it gave away that many more.
  uint32_t end_after(uint32_t wished) const {
    return static_cast<uint32_t>(min_of(size_t{end()} + wished, planned_));
  }
  uint32_t left() const { return occupied() ? 0 : planned_ - end(); }
  size_t described_bytes() const { return described_bytes_.load(kAcquire); }  // pairs: described
  bool contains(const void* address) const {
    return static_cast<size_t>(static_cast<const char*>(address) - base_) < described_bytes();
  }

 private:
  bool describe(uint32_t end);
  bool describe_to(size_t end);
  bool map(char* start, size_t bytes);

  // Written when the window grows.
  char* start_ = nullptr;
  char* head_end_ = nullptr;
  char* tables_ = nullptr;
  size_t table_bytes_ = 0;
  Span* spans_ = nullptr;
  char* base_ = nullptr;
  uint32_t planned_ = 0;
  Atomic<uint32_t> end_{0};
  Plain<uint32_t> described_ = 0;
  bool mapped_ = false;
  GrowingSize* published_ = nullptr;

  // Any thread reads these on slow paths, so they have a cache line of their own.
  alignas(128) Atomic<bool> occupied_{false};
  Atomic<size_t> described_bytes_{0};
};

}  // namespace near

// A shard: a part of one NUMA node's memory, with its own lock, its own regions, and the policy of
// what to keep and what to give back. Heaps of a node are spread over its shards (node/node.h), so
// threads of different shards share no lock and no line.
//
// Freed slices stay dirty for a while, because giving memory back and faulting it in again costs
// more than most programs gain. The purge thread, or the slow paths of a process without one, give
// slices back when they are older than `decay_ms`, or at once when dirty bytes exceed a limit.
//  - With a purge thread the limit is max(dirty_mib, 1.5 times the recent peak of live memory). The
//    shards of a node share `dirty_mib`.
//  - Without one, an idle process would never shrink, so the limit starts small. It grows when
//    memory that it gave back is soon needed again, and when a large block is freed. So a program
//    that cycles quickly through memory keeps it; one that has shrunk for good gives it back.
//  - If the process has a limit of address space or data, the free of a large run gives wholly free
//    chunks back at once, except a sixteenth of that limit (over all shards of the node), because
//    the rest of the process needs the room.
//  - The amount set by `keep` always stays: the program had it made resident in advance.
// A wholly free chunk is unmapped, so that it counts against no limit; this works for locked memory
// too. In other chunks the free pages are dropped; if the system refuses that, they wait until the
// chunk is whole.
// Thread-safety: any thread. `lock` guards the regions and the private fields; `growing` (taken
// first) is held to map or unmap chunks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "node/keeping.h"
#include "node/region.h"
#include "sync/mutex.h"

namespace near {

class Node;

// It has cache lines of its own: threads of other shards read and lock its neighbours.
class alignas(128) Shard {
 public:
  // Called before any thread uses it: it is shard `number` of `node`.
  void init(Node& node, unsigned number);
  Node& node() const { return *node_; }
  unsigned number() const { return number_; }

  // Adds a region: at start, after a new shard was published, or when the others are exhausted.
  void add(Region* region);

  // Takes a run of slices from mapped memory; null if there is none. `zero`: all of it reads as
  // zero. Takes the shard's lock; the caller may hold a heap's lock.
  Span* take_mapped(const RunRequest& request, bool& zero);

  // As take_mapped, if no other thread holds the lock now.
  Span* try_take_mapped(const RunRequest& request, bool& zero);

  // As take_mapped, and maps memory for the run if there is none. `refused`: the system refused
  // that. Takes `growing` and the shard's lock; errno is unchanged.
  Span* take(const RunRequest& request, bool& zero, bool& refused);

  // As `take`, from a region that this shard does not have yet.
  Span* take_from_new(Region& region, const RunRequest& request, bool& zero);

  // Gives back a span, or its slices from number `keep` on.
  void give(Span* span, uint32_t keep = 0);

  // Makes a span longer in place, if the slices behind it are free. Maps memory for that only if no
  // mapped run is twice as long as the extended span: otherwise a growing block should move to
  // memory that is mapped already.
  bool extend(Span* span, uint32_t slices);

  // Takes a run of whole chunks from the span's region for a large block to grow. `moved`: the
  // block's pages moved there, and `span` is given back; else the caller copies the bytes. Null
  // without room, or if the system refuses.
  Span* move(Span* span, const RunRequest& request, bool& moved);

  // True if the block has moved before.
  bool is_moved(const Span& span) {
    const LockGuard guard(lock);
    return span.region->is_moved(span);
  }

  // Gives free slices that were not used for `age_ms` back to the system, until at most
  // `keep_bytes` are dirty or `is_over` returns true. Returns the bytes given back. Takes the lock
  // for one chunk at a time.
  size_t purge(uint32_t age_ms, size_t keep_bytes, bool (*is_over)() = nullptr);

  // From now on, once `bytes` are dirty, no purge leaves fewer dirty.
  void keep(size_t bytes);

  // Dirty slices that the shard can lend: those that none of its heaps needed during the purge
  // thread's last round, and those that stay anyway (`keep`). Needs no lock.
  uint32_t spare() const { return spare_.load(kRelaxed); }  // relaxed: a hint

  // Called by the purge thread in each round: finds what the shard can lend.
  void count_spare();

  // Called when the purge thread has ended: gives back what exceeds the limit without one.
  void obey_limits();

  // Purges memory of any age, also what the system refused before. With `keep_bytes` 0 it also
  // unmaps free chunks that are clean.
  size_t trim(size_t keep_bytes);

  // Called in the child of a fork, with the lock held: frees the slices that another thread was
  // purging.
  void restore_withdrawn();

  // A number that changes with each `give`. Needs no lock.
  uint64_t gives() const { return gives_.load(kRelaxed); }  // relaxed: a hint

  // Called after pages inside a span with live blocks were given back.
  void record_pages_purged(const Span& span);

  // True if there is address space left for a run of slices. Then a take that failed was refused by
  // the system.
  bool has_room(uint32_t slices);

  // Bytes that can be purged.
  size_t dirty_bytes();

  // True if a part of a huge page is unused, and becomes dirty if it stays so (purge).
  bool has_unused();

  struct Totals {
    size_t reserved;
    size_t committed;
    size_t in_spans;
    size_t dirty;
    uint64_t purged;
    uint64_t purge_calls;
    uint64_t commit_calls;

    Totals& operator+=(const Totals& other);
  };
  Totals totals();

  size_t check();

  // Calls visit(span) for the descriptor of every slice of mapped chunks, with the lock held.
  template <typename Visit>
  void for_each_span(Visit visit) {
    const LockGuard guard(lock);
    for (const Region* region = regions_; region != nullptr; region = region->next) {
      for (uint32_t chunk = 0; chunk < region->chunks_end(); chunk++) {
        if (!region->is_mapped(chunk)) continue;
        for (size_t i = 0; i < kChunkSlices; i++) {
          visit(region->span(size_t{chunk} * kChunkSlices + i));
        }
      }
    }
  }

  // Calls visit(region, number, copy of the chunk) for every mapped chunk, in the order of their
  // addresses in each region. Calls it without the lock, so spans come and go meanwhile.
  template <typename Visit>
  void for_each_mapped(Visit visit) {
    for (Region* region = nullptr; (region = region_after(region)) != nullptr;) {
      Chunk chunk;
      for (uint32_t index = 0; copy_chunk(*region, index, chunk); index++) {
        if (chunk.presence == Presence::mapped) visit(*region, index, chunk);
      }
    }
  }

  // Calls visit(start of the chunk, mask of its slices in use) for every mapped chunk that has any,
  // as for_each_mapped does.
  template <typename Visit>
  void for_each_chunk(Visit visit) {
    for_each_mapped([&](const Region& region, uint32_t index, const Chunk& chunk) {
      if (~chunk.free != 0) visit(region.chunk_start(index), ~chunk.free);
    });
  }

  // Held to map or unmap chunks. Aligned, because it is seldom taken and `lock` often.
  alignas(64) Mutex growing{Rank::growing};
  alignas(64) Mutex lock{Rank::node};

 private:
  friend struct Layout;
  // The result of an attempt to grow.
  enum class Grown : uint8_t { yes, no_room, refused };

  Region* region_after(const Region* region);
  bool has(const Region* region) const;
  bool copy_chunk(const Region& region, uint32_t index, Chunk& copy);
  Span* take_from(Region& region, const RunRequest& request, bool& zero);
  NEAR_INLINE Span* record_taken(Span* span, uint32_t slices, uint32_t clean, bool& zero);
  template <typename Plan, typename Use>
  Grown grow(Region& region, Plan plan, Use use);
  Span* grow_and_take(Region& region, const RunRequest& request, bool& zero, bool& refused);
  size_t dirty_slices() const;
  size_t live_slices() const;
  void look_at_limits();
  size_t purge_oldest(Region& region, uint64_t now, uint32_t age_ms, bool whole_only, bool& any);
  size_t purge_chunk(Region& region, uint32_t chunk);
  size_t unmap_chunk(Region& region, uint32_t chunk);
  size_t purge_regions(uint32_t age_ms, size_t keep_slices, bool whole_only, bool (*is_over)());
  size_t purge_until(uint32_t age_ms, size_t keep_slices, bool whole_only,
                     bool (*is_over)() = nullptr);
  void unmap_clean();

  NEAR_INLINE Span* take_locked(const RunRequest& request, bool& zero);
  size_t of_node(size_t amount) const;
  size_t bound() const;
  void update_spare(size_t dirty);

  Node* node_ = nullptr;
  unsigned number_ = 0;
  Atomic<uint32_t> spare_{0};
  size_t lowest_dirty_ = 0;  // of dirty_slices() since the last count_spare
  size_t unneeded_ = 0;      // the same of the round before it
  Region* regions_ = nullptr;
  Region* last_region_ = nullptr;
  uint64_t now_ms_ = 0;  // the clock, read at each look at the limits
  Keeping keeping_;
  uint64_t purged_bytes_ = 0;
  uint64_t purge_calls_ = 0;
  Atomic<uint64_t> gives_{0};
};

}  // namespace near

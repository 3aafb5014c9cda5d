// One NUMA node's memory: its regions, and the policy of what is kept and what is given back.
//
// Freed slices stay dirty for a while, because giving memory back and faulting it in again costs
// more than most programs gain. They leave when they are older than `decay_ms` (purge thread, or
// slow paths of a process without one), or at once when dirty bytes exceed a limit. With a purge
// thread the limit is max(dirty_mib, 1.5 times what was live lately). Without one nothing would
// shrink an idle process, so there the limit starts small and grows by what was given back and then
// wanted again soon, or when a large block leaves: a program that cycles quickly through memory
// keeps it, one that has shrunk for good gives it back at the free itself. Under a limit of address
// space or data, large runs leave at once: the rest of the process needs the room.
// So much as `keep` says stays in any case: the program had it made resident ahead of need.
// A chunk that is wholly free is unmapped, so that it counts against no limit, and in memory that
// is locked; of others the free pages are dropped, and where the system refuses that they wait
// until the chunk is whole.
// Thread-safety: any thread; `lock` guards the regions and the fields below it, regions_lock
// what maps or unmaps chunks (and is taken first).
#pragma once

#include <cstddef>
#include <cstdint>

#include "node/region.h"
#include "sync/mutex.h"

namespace near {

// Alone on its lines: threads of other nodes read and lock the neighbours in the table of nodes.
class alignas(128) Node {
 public:
  // Adds a region, at start or when the others are exhausted.
  void add(Region* region);

  // A run of slices from this node, or null (errno is untouched). `zero`: all of it reads as zero.
  Span* take(uint32_t slices, bool& zero, size_t alignment);

  // The same from a region that this node does not have yet. regions_lock is held.
  Span* take_from_new(Region& region, uint32_t slices, bool& zero, size_t alignment);

  // Gives back a span, or its slices from number `keep` on.
  void give(Span* span, uint32_t keep = 0);

  // Makes a span longer in place, if what lies behind it is free. Memory is mapped for that only if
  // there is no place yet where the span could double: a block that grows moves into memory that is
  // resident already.
  bool extend(Span* span, uint32_t slices);

  // Gives memory back to the system: free slices not used for `age_ms`, until at most `keep_bytes`
  // are dirty, or `is_over` says so. Returns the bytes given back. Takes the lock for one chunk at
  // a time.
  size_t purge(uint32_t age_ms, size_t keep_bytes, bool (*is_over)() = nullptr);

  // From now on so much stays dirty, once it is, whatever asks for it to be given back.
  void keep(size_t bytes);

  // The purge thread has ended: gives back what a process without one would not have kept.
  void obey_limits();

  // All of it, also what the system refused before, and free chunks that are clean.
  size_t trim(size_t keep_bytes);

  // In the child of a fork: what another thread was purging is free again. The lock is held.
  void restore_withdrawn();

  // Changes when something is given back. Without the lock.
  uint64_t gives() const { return gives_.load(kRelaxed); }  // relaxed: a hint

  // Pages inside a span with live blocks were given back.
  void note_pages_purged(const Span& span);

  // True if there is address space left for a run of slices: what refused it was the system.
  bool has_room(uint32_t slices);

  // What can be purged.
  size_t dirty_bytes();

  struct Totals {
    size_t reserved;
    size_t committed;
    size_t in_spans;
    size_t dirty;
    uint64_t purged;
    uint64_t purge_calls;
    uint64_t commit_calls;
  };
  Totals totals();

  size_t check();

  // Calls visit(span) for the descriptor of every usable slice, the lock held.
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

  // Calls visit(start of the chunk, mask of its slices that belong to spans) for every usable
  // chunk, without the lock: spans come and go meanwhile.
  template <typename Visit>
  void for_each_chunk(Visit visit) {
    for (Region* region = nullptr; (region = region_after(region)) != nullptr;) {
      uint32_t used = 0;
      for (uint32_t index = 0; slices_in_use(*region, index, used); index++) {
        if (used != 0) visit(region->chunk_start(index), used);
      }
    }
  }

  Mutex lock{Rank::node};

 private:
  // What became of a try to grow.
  enum class Grown : uint8_t { yes, no_room, refused };

  Region* region_after(const Region* region);
  bool has(const Region* region) const;
  bool slices_in_use(const Region& region, uint32_t chunk, uint32_t& mask);
  Span* take_from(Region& region, uint32_t slices, bool& zero, size_t alignment);
  Span* note_taken(Span* span, uint32_t slices, uint32_t clean, bool& zero);
  template <typename Plan, typename Use>
  Grown grow(Region& region, Plan plan, Use use);
  Span* grow_and_take(Region& region, uint32_t slices, bool& zero, size_t alignment);
  size_t dirty_slices() const;
  void follow_peak(uint64_t now);
  static size_t bound_slices();
  size_t most_slices() const;
  size_t limit_slices() const;
  size_t live_slices() const;
  void look_at_limits();
  void expect_another(size_t slices);
  void forget_credit(uint64_t now);
  void note_regret(uint32_t slices);
  size_t purge_oldest(Region& region, uint64_t now, uint32_t age_ms, bool whole_only, bool& any);
  size_t purge_chunk(Region& region, uint32_t chunk);
  size_t unmap_chunk(Region& region, uint32_t chunk);
  size_t purge_until(uint32_t age_ms, size_t keep_slices, bool whole_only,
                     bool (*is_over)() = nullptr);
  void unmap_clean();

  Region* regions_ = nullptr;
  Region* last_region_ = nullptr;
  uint64_t now_ms_ = 0;  // the clock, read at each look at the limits
  uint64_t last_decay_ms_ = 0;
  size_t look_every_ = 0;       // slices given back between two looks: an eighth of the limit
  size_t unlooked_slices_ = 0;  // given back since the limits were looked at
  size_t peak_slices_ = 0;      // live, lately at most
  uint64_t peak_ms_ = 0;        // when the peak was lowered last
  size_t learned_slices_ = 0;   // the limit without a purge thread
  size_t credit_slices_ = 0;    // given back by the limit, and not wanted again since
  uint64_t credit_ms_ = 0;      // when that happened last
  size_t regret_slices_ = 0;    // given back by the limit, and wanted again
  size_t kept_slices_ = 0;      // that stay dirty, once they are
  uint64_t purged_bytes_ = 0;
  uint64_t purge_calls_ = 0;
  Atomic<uint64_t> gives_{0};
};

}  // namespace near

// A region: the chunks of one NUMA node in one window.
//
// Invariant: a mapped chunk has bucket == longest_run(free) and is in list [dirty != 0][bucket]. An
// absent chunk is in absent_, unless a growth has withdrawn it. A chunk is in a list of those that
// wait to be purged if and only if it has dirty slices; that list is in the order of stamps.
// Policy: take from the chunk whose longest run is the shortest that fits, dirty chunks first. So
// chunks fill one after another, and whole huge pages stay free or stay full. If only wholly free
// chunks fit, or none, take the lowest run over several chunks, and map those of them that are
// absent; but some lengths stay in one chunk (lies_in_chunk).
// A region grows in three steps, so that the system is called without the shard's lock: plan_growth
// withdraws the chunks to map, map_growth maps them, end_growth puts them back.
// Thread-safety: guarded by its node's lock, except `node` and the descriptors of live spans. The
// steps of growing (extend_to, map_growth) and the table's end are guarded by the shard's lock of
// growing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/atomic.h"
#include "base/compiler.h"
#include "node/chunk.h"
#include "node/huge_page_cost.h"
#include "node/run_tree.h"
#include "node/window.h"
#include "platform/os.h"
#include "span/layout.h"

namespace near {

// True if a run of so many slices lies in one chunk: such runs fill a chunk without a rest. Spans
// of classes have such lengths, because the links of their blocks (span/free_list.h) reach no
// further. Other runs may begin in one chunk and end in the next.
inline constexpr bool lies_in_chunk(uint32_t slices) {
  return slices < kChunkSlices && (slices & (slices - 1)) == 0;
}
static_assert([] {
  for (unsigned c = 0; c < kClasses; c++) {
    if (!lies_in_chunk(kSizeClasses[c].slices) || !lies_in_chunk(kShortSpans[c].slices))
      return false;
  }
  return true;
}());

class Shard;

// A plan to grow: the chunks withdrawn until they are mapped, or how many chunks are missing.
struct Growth {
  uint64_t first = 0;                // first slice of the run
  uint32_t slices = 0;               // length of the run; 0: there is no such run
  uint32_t end = 0;                  // the chunk after the last withdrawn one
  uint32_t missing = 0;              // chunks that the window must give first
  bool dense = true;                 // false: the chunks to map have small pages
  size_t small_pages = 0;            // chunks of a lower order than this have small pages
  uint32_t small_from = UINT32_MAX;  // and those from this number on, as huge ones are slow now
  bool at_start = true;              // the program will write to the start of the run
  // if mappings are scarce: the pages of a neighbour, whose mapping the chunks can join
  std::optional<Pages> joined = std::nullopt;

  uint32_t begin() const { return static_cast<uint32_t>(first / kChunkSlices); }
};

// The end of a move. The block stays, and its new run is `unmapped`; or both are as before
// (`refused`).
enum class Moved : uint8_t { yes, unmapped, refused };

class alignas(128) Region {
 public:
  // `table`: the number of the region's table in the window. `budget`: of the region's node.
  void init(Window& window, unsigned table, Shard& shard, Budget& budget);

  // In the first kPlacedChunks, runs that lie in one chunk begin at this slice or behind, while
  // there is room; longer ones at the multiple of their length below it. Called before the region
  // has chunks.
  void begin_at(unsigned slice) { first_slice_ = slice; }

  // Takes a run of slices from mapped chunks; null if there is none. Sets `clean` to the number of
  // them that read as zero, and `start`, `slices`, `region` and `node` of the descriptor.
  Span* take(const RunRequest& request, uint32_t& clean);

  // Makes `span` longer by the slices behind it, if they are free and mapped.
  bool extend(Span* span, uint32_t slices);

  // Gives back the slices of `span` from number `keep` on; with keep 0 the whole span.
  void give(Span* span, uint32_t keep, uint64_t now_ms);

  // --- growing ---

  // Withdraws a run of free slices (with slack to align it) and the absent chunks that must be
  // mapped for it; with `generous` some more absent chunks. If there is no such run, `missing` says
  // how many chunks the region must get from its window.
  Growth plan_growth(const RunRequest& request, bool generous);

  // As plan_growth, for the slices behind a span. If these are in use, the plan is empty: no run
  // and no missing chunks.
  Growth plan_extension(const Span& span, uint32_t slices);

  // Gets at least `least` chunks from the window; they are absent. False if it has too few.
  // Requires the lock of growing; `lock` is the shard's lock, which the caller must not hold.
  bool extend_to(uint32_t least, Mutex& lock);

  // Maps the absent chunks of a growth, without the node's lock: all of them or none.
  os::Mapped map_growth(Growth& growth);

  // Puts the chunks of a growth back: mapped, or absent as they were, or (`occupied`) given up.
  void end_growth(const Growth& growth, os::Mapped mapped);

  // Makes a span in the run of a growth that has just ended.
  Span* take_grown(const Growth& growth, const RunRequest& request, uint32_t& clean) {
    return make_span(growth.first, request, clean);
  }

  // --- moving a large block by its page tables (region_move.cc) ---

  // As plan_growth, for a run of whole chunks that begins at a chunk.
  Growth plan_chunks(const RunRequest& request);

  // True if the whole chunks of a large block can move.
  bool can_move(const Span& span) const;

  // The pages of a run after a move: huge for a dense run while huge pages come fast. Guard: the
  // shard's lock of growing.
  Pages pages_of_moved(bool dense) const;

  // True if a large block, longer by `more` slices, would lie in a single mapping.
  bool is_one_mapping(const Span& span, uint32_t more) const;

  // True if the block has moved before, so that no mapping can join its pages.
  bool is_moved(const Span& span) const;

  // Moves the pages of a block to the run `to` of plan_chunks, without the shard's lock; copies
  // slices behind the last whole chunk.
  Moved move_pages(const Span& from, const Span& to, Pages pages);

  // Called after move_pages: gives back the run `from`. leave: a span ends whose first `slices`,
  // whole chunks, are unmapped.
  void end_move(Span& from, const Span& to, Pages pages, uint64_t now_ms);
  void leave(Span& span, uint32_t slices);

  // True if a run of slices could be taken without growing.
  bool has_mapped_run(uint32_t slices) const { return find(slices) != RunTree::kNowhere; }

  // True if there is address space left for a run of slices.
  bool has_room(uint32_t slices) const;

  // Takes all chunks of a window that is mapped already.
  void own_mapped();

  // Takes chunks that were got from the window for the region's node, and mapped with small pages.
  // False if memory for the table is refused. Only before other threads know the region.
  bool own_reserved(uint32_t first, uint32_t count);

  // `entries` of the table are mapped already.
  void set_table_end(uint32_t entries) { table_end_ = entries; }

  // Unmaps the tables and descriptors of the window, which has no other region and which no other
  // thread knows yet.
  void vanish() { window_->vanish(table_, table_end_); }

  // --- purging ---

  // The chunk that has been dirty for longest, if for at least `age_ms`; with `whole_only`, only
  // among the wholly free ones. kNoChunk if there is none.
  uint32_t find_purgeable(uint64_t now_ms, uint32_t age_ms, bool whole_only) const;

  // Makes the unused slices of the chunk opened last dirty if none was taken for `age_ms`.
  void look_at_unused(uint64_t now_ms, uint32_t age_ms);

  // True if the chunk is wholly free, and mappings are not too scarce to unmap it.
  bool can_unmap(uint32_t chunk) const;

  // A wholly free and clean mapped chunk that can be unmapped; or kNoChunk.
  uint32_t find_clean_whole() const;

  // withdraw_dirty withdraws the dirty slices of a chunk, so that they can be purged without the
  // lock; from a chunk with huge pages all free slices, because a huge page makes unused slices
  // resident too. put_back puts them back; those in `dirty` are still dirty.
  uint32_t withdraw_dirty(uint32_t chunk);
  void put_back(uint32_t chunk, uint32_t slices, uint32_t dirty);

  // withdraw_whole withdraws a whole chunk, so that it can be unmapped. After put_back_whole it is
  // absent if `unmapped`, else as before.
  void withdraw_whole(uint32_t chunk);
  void put_back_whole(uint32_t chunk, uint32_t dirty, bool unmapped);

  // record_stuck: the system refused to purge the chunk. It waits until it is wholly free, or until
  // retry_stuck.
  void record_stuck(uint32_t chunk);
  void retry_stuck();

  // Called in the child of a fork, where the thread that was purging does not exist: puts back what
  // it withdrew.
  void restore_withdrawn();

  // Called after pages of a span with live blocks were purged.
  void record_pages_purged(const Span& span) { update_huge_page_advice(chunk_of(span), false); }

  // --- looking ---

  char* chunk_start(uint32_t chunk) const { return base_ + (size_t{chunk} << kChunkShift); }
  uintptr_t address_of(uint64_t slice) const {
    return reinterpret_cast<uintptr_t>(base_) + (slice << kSliceShift);
  }
  const Window& window() const { return *window_; }
  Span* span_at(const void* address) const {
    return &spans_[static_cast<size_t>(static_cast<const char*>(address) - base_) >> kSliceShift];
  }
  const Span& span(size_t slice) const { return spans_[slice]; }
  uint32_t chunks_end() const { return end_; }  // the region owns no chunk from here on
  bool is_mapped(uint32_t chunk) const { return chunks_[chunk].presence == Presence::mapped; }
  int32_t mappings() const { return mappings_; }
  size_t owned_bytes() const { return size_t{owned_} << kChunkShift; }
  size_t committed_bytes() const { return size_t{mapped_} << kChunkShift; }
  Shard& shard() const { return *shard_; }
  unsigned node() const { return node_; }
  size_t dirty_slices() const { return dirty_slices_ - stuck_slices_; }  // that can be purged
  size_t stuck_slices() const { return stuck_slices_; }
  size_t free_slices() const { return free_slices_; }
  bool has_unused() const { return opened_.known; }  // look_at_unused may find some
  const Chunk& chunk(uint32_t index) const { return chunks_[index]; }
  uint64_t commit_calls() const { return growths_; }

  // Checks the invariants; returns the number of violations, each named on stderr.
  size_t check() const;

  Region* next = nullptr;  // the next region of the same node, in the order of their creation

  // How many chunks have small pages for all runs.
  static constexpr uint32_t kSmallPageChunks = 1;

 private:
  friend struct Layout;

  // The chunk with huge pages of which a part was taken last while it was wholly free. The rest of
  // it is resident, too: it leaves if it stays unused. A chunk that another one replaces here is
  // not looked at; later runs fill it. All zero if there is none: an unused region costs no memory.
  struct Opened {
    bool known = false;
    uint32_t chunk = 0;
    uint32_t unused = 0;    // its clean free slices at the last look
    uint64_t since_ms = 0;  // the look that first saw these
  };

  static constexpr unsigned kBuckets = kChunkSlices + 1;
  static constexpr uint32_t kPlacedChunks = 8;
  using FitList = ChunkList<&Chunk::fit>;
  using AgeList = ChunkList<&Chunk::age>;
  using WholeList = ChunkList<&Chunk::whole>;

  uint32_t chunk_of(const Span& span) const {
    return static_cast<uint32_t>((span.start - base_) >> kChunkShift);
  }
  uint64_t find(uint32_t slices) const;
  uint64_t find_anywhere(uint32_t slices) const;
  uint32_t find_in_chunks(uint32_t slices) const;
  unsigned find_in(uint32_t chunk, uint32_t mask, uint32_t slices) const;
  bool are_mapped(uint64_t first, uint32_t slices) const;
  uint64_t free_at_end(uint64_t most) const;
  uint32_t missing_chunks(uint32_t slices) const;
  bool is_free(uint64_t first, uint32_t slices) const;
  Span* make_span(uint64_t first, const RunRequest& request, uint32_t& clean);
  uint32_t claim(uint64_t first, uint32_t slices, bool dense);
  void release(uint64_t first, uint32_t slices, uint64_t now_ms);

  uint32_t generous_count(uint32_t chunks) const;
  Growth withdraw(uint64_t first, uint32_t slices, uint32_t end);
  uint32_t mask_of(const Growth& growth, uint32_t chunk) const;
  uint32_t get_chunks(uint32_t least, uint32_t wished, uint32_t& first) {
    return window_->get_chunks({table_, node_, table_end_}, *budget_, windows_lock, {least, wished},
                               first);
  }
  void own(uint32_t first, uint32_t count);
  void show_mapped(const Growth& growth, uint32_t first, uint32_t count);
  Pages pages_of(const Growth& growth, uint32_t chunk) const;
  static size_t small_page_chunks();
  os::Mapped map_run(const Growth& growth, uint32_t first, uint32_t end);
  void unmap_run(uint32_t first, uint32_t end);
  void end_growth_of(const Growth& growth, uint32_t chunk, os::Mapped mapped);
  void become(uint32_t chunk, Presence presence);
  void become_absent(uint32_t chunk);
  bool set_pages(uint32_t chunk, Pages pages);
  bool has_huge_pages(uint32_t chunk) const { return chunks_[chunk].pages == Pages::huge; }
  // Also for numbers from the end on: the number before 0 is one of these.
  bool has_mapped(uint32_t chunk) const { return chunk < end_ && is_mapped(chunk); }
  bool is_inherited(uint32_t chunk) const;
  void record_seams(uint32_t chunk);
  bool begins_mapping(uint32_t chunk) const;
  int32_t mappings_in(uint32_t first, uint32_t last) const;
  int32_t mappings_at(uint32_t chunk) const { return mappings_in(chunk, chunk + 1); }
  int32_t mappings_without(uint32_t chunk) const;
  void count_mappings(int32_t added);
  uint32_t absent_to_map() const;
  std::optional<Pages> pages_to_join(const Growth& growth) const;
  void advise_pages(const Growth& growth, uint32_t begin, uint32_t end);
  void try_huge_page(Growth& growth);

  void update_huge_page_advice(uint32_t chunk, bool whole);
  void forget_touched(uint32_t chunk, uint32_t slices);
  void link(uint32_t chunk, unsigned longest_run);
  void unlink(uint32_t chunk);
  void changed(uint32_t chunk);
  NEAR_INLINE void changed(uint32_t chunk, uint32_t mask);
  NEAR_INLINE void relist(uint32_t chunk);
  void forget_unused(uint32_t chunk);
  void wait_as(uint32_t chunk, Waiting how);
  void wait_again(uint32_t chunk);
  void add_dirty(uint32_t chunk, uint32_t mask, uint32_t count);
  uint32_t clear_dirty(uint32_t chunk, uint32_t mask, uint32_t count);
  size_t check_chunk(uint32_t index) const;
  size_t check_lists(uint32_t index) const;

  Window* window_ = nullptr;
  unsigned table_ = 0;
  char* base_ = nullptr;
  Span* spans_ = nullptr;
  Chunk* chunks_ = nullptr;
  Shard* shard_ = nullptr;
  Budget* budget_ = nullptr;
  HugePageCost huge_cost_;
  Plain<uint32_t> table_end_ = 0;  // how many entries of the table are mapped; guard: growing
  uint32_t owned_ = 0;             // chunks that are absent or mapped
  uint32_t mapped_ = 0;
  uint32_t end_ = 0;   // all its chunks lie below this one
  uint32_t away_ = 0;  // chunks that have slices away
  unsigned node_ = 0;
  unsigned first_slice_ = 0;  // see begin_at
  int32_t mappings_ = 0;      // of its chunks (node/mappings.h)
  uint64_t growths_ = 0;
  Opened opened_;
  size_t dirty_slices_ = 0;
  size_t stuck_slices_ = 0;      // dirty slices that the system refused to purge
  size_t free_slices_ = 0;       // free slices of mapped chunks
  uint64_t filled_[2] = {0, 0};  // bit b: list [dirty][b] is not empty
  FitList fitting_[2][kBuckets];
  FitList absent_;   // absent chunks that no growth has withdrawn
  AgeList waiting_;  // chunks to purge, the one dirty for longest first
  AgeList stuck_;
  WholeList whole_;  // the wholly free chunks of waiting_
  RunTree runs_;
};

}  // namespace near

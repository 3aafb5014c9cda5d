// How many mappings a region's chunks make.
//
// Neighbouring chunks share a mapping if their pages are of the same kind and no seam lies between
// the chunks. At a seam the system does not join mappings, because pages on both sides were touched
// before the sides met (in the kernel, the anon_vma of the sides differ). The system joins a new
// chunk to the mapping before the chunk, else to the mapping behind. The system joins all three
// only if both sides were a single mapping before a part between them was unmapped. So an absent
// chunk keeps the seams of its last mapping.
// Invariant: mappings_ = the number of chunks that begin a mapping. The system has at most as many
// mappings of these addresses, unless the program splits some.
// Thread-safety: guarded by the shard's lock.
#include "node/mappings.h"
#include "node/region.h"

namespace near {

static_assert(MappingCount::kForks <= Chunk::kMoved);

constinit MappingCount mapping_count;

bool Region::begins_mapping(uint32_t index) const {
  if (!has_mapped(index)) return false;
  if (index == 0 || !is_mapped(index - 1) || chunks_[index].seam) return true;
  return has_huge_pages(index - 1) != has_huge_pages(index);
}

// How many mappings begin with these chunks. The state of a chunk decides for that chunk and the
// next.
int32_t Region::mappings_in(uint32_t first, uint32_t last) const {
  int32_t begun = 0;
  for (uint32_t index = first; index <= last; index++) begun += begins_mapping(index) ? 1 : 0;
  return begun;
}

// The same if the chunk were absent.
int32_t Region::mappings_without(uint32_t index) const { return has_mapped(index + 1) ? 1 : 0; }

void Region::count_mappings(int32_t added) {
  mappings_ += added;
  mapping_count.add(added);
}

// Changes the kind of a mapped chunk's pages. False if mappings are too scarce.
bool Region::set_pages(uint32_t index, Pages pages) {
  const int32_t before = mappings_at(index);
  const Pages old = chunks_[index].pages;
  chunks_[index].pages = pages;
  const int32_t added = mappings_at(index) - before;
  if (!mapping_count.allows(added)) {
    chunks_[index].pages = old;
    return false;
  }
  count_mappings(added);
  return true;
}

// True if the system joins nothing to the chunk: mapped before the last fork, or moved.
bool Region::is_inherited(uint32_t index) const {
  return has_mapped(index) && chunks_[index].forks != mapping_count.forks();
}

// Called when the chunk, whose pages are known, is about to count as mapped.
void Region::record_seams(uint32_t index) {
  const auto joins = [&](uint32_t other) {
    return has_mapped(other) && !is_inherited(other) &&
           has_huge_pages(other) == has_huge_pages(index);
  };
  Chunk& chunk = chunks_[index];
  const bool has_next = index + 1 < end_;
  const bool before = chunk.seam;
  const bool behind = has_next && chunks_[index + 1].seam;
  const bool joins_before = joins(index - 1);
  const bool joins_behind = !joins_before && joins(index + 1);
  chunk.forks = mapping_count.forks() & Chunk::kMoved;
  chunk.seam = !joins_before && (before || behind || !joins_behind || is_inherited(index - 1));
  if (!has_next) return;
  chunks_[index + 1].seam =
      !joins_behind && (behind || before || !joins_before || is_inherited(index + 1));
}

// --- growing while mappings are scarce ---

// The absent chunk to map for a run within a chunk. Requires an absent chunk. If mappings are
// scarce, the result is a neighbour of a mapped chunk where possible, and adds no mapping.
uint32_t Region::absent_to_map() const {
  const uint32_t front = absent_.front();
  if (!mapping_count.is_full() || has_mapped(front - 1) || has_mapped(front + 1)) return front;
  constexpr uint32_t kHasWholeChunk = 2 * kChunkSlices - 1;
  const uint64_t lowest = runs_.find(kHasWholeChunk);
  if (lowest == RunTree::kNowhere) return front;
  const auto index = static_cast<uint32_t>(div_up(lowest, kChunkSlices));
  return is_mapped(index) ? front : index;
}

// If mappings are scarce: the pages of a mapping beside the growth's first absent chunk.
std::optional<Pages> Region::pages_to_join(const Growth& growth) const {
  if (!mapping_count.is_full()) return std::nullopt;
  uint32_t first = growth.begin();
  while (first < growth.end && is_mapped(first)) first++;
  if (first > 0 && is_mapped(first - 1)) return Pages{chunks_[first - 1].pages};
  if (has_mapped(growth.end)) return Pages{chunks_[growth.end].pages};
  return std::nullopt;
}

}  // namespace near

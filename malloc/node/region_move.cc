// How a large block moves to a longer run by the page tables: only bytes behind the last whole
// chunk of the block are copied.
//
// The block begins at a chunk. All whole chunks are a single mapping. The system moves the mapping
// over the first chunks of the new run, and makes the mapping as long as the run. The chunks of the
// old run are absent then. A moved mapping joins no other (in the kernel, vm_pgoff differs from the
// address), so seams lie on both sides.
// Thread-safety: the shard's lock of growing; with it the shard's lock, except for move_pages.
#include <cstring>

#include "base/assert.h"
#include "node/mappings.h"
#include "node/region.h"
#include "platform/options.h"

namespace near {

Pages Region::pages_of_moved(bool dense) const {
  if (option(Option::huge_pages) == 0) return Pages::small;
  return dense && !huge_cost_.is_high() ? Pages::huge : Pages::split;
}

// As plan_growth, for a run of whole chunks.
Growth Region::plan_chunks(const RunRequest& request) {
  NEAR_ASSERT(request.slices % kChunkSlices == 0);
  const uint32_t slices = request.with_slack();
  const uint64_t first = runs_.find(slices);
  if (first == RunTree::kNowhere) return {.missing = missing_chunks(slices)};
  const auto begin = static_cast<uint32_t>(div_up(first, kChunkSlices));
  const uint32_t end = begin + request.slices / kChunkSlices;
  Growth growth = withdraw(uint64_t{begin} * kChunkSlices, request.slices, end);
  growth.dense = request.dense;
  growth.joined = pages_to_join(growth);
  growth.at_start = false;  // the pages come along
  return growth;
}

bool Region::is_one_mapping(const Span& span, uint32_t more) const {
  const uint32_t first = chunk_of(span);
  const auto slices = static_cast<uint64_t>(&span - spans_) + span.slices + more;
  for (uint64_t index = first + 1; index < div_up(slices, kChunkSlices); index++) {
    if (begins_mapping(static_cast<uint32_t>(index))) return false;
  }
  return true;
}

bool Region::can_move(const Span& span) const {
  const uint64_t first = uint64_t{chunk_of(span)} * kChunkSlices;
  const bool begins = address_of(first) == reinterpret_cast<uintptr_t>(span.start);
  if (!begins || span.slices < kChunkSlices || !os::can_move()) return false;
  constexpr int32_t kMost = 3;  // a hole, and seams on both sides of the moved mapping
  return is_one_mapping(span, 0) && mapping_count.allows(kMost);
}

bool Region::is_moved(const Span& span) const {
  return chunks_[chunk_of(span)].forks == Chunk::kMoved;
}

Moved Region::move_pages(const Span& from, const Span& to, Pages pages) {
  const size_t bytes = size_t{from.slices / kChunkSlices} << kChunkShift;
  if (!os::move(from.start, bytes, to.start, to.bytes())) {
    // The system may have unmapped the new run. If the process has no mapping left for a hole, both
    // calls changed nothing.
    return os::unmap(to.start, to.bytes()) ? Moved::unmapped : Moved::refused;
  }
  const bool huge = pages == Pages::huge;
  os::advise_huge_pages(to.start, to.bytes(), huge);
  char* fresh = to.start + bytes;  // the program will write there
  if (huge) huge_cost_.record(os::touch(fresh));
  huge_cost_.count_small(huge ? 0 : (to.slices - from.slices) / kChunkSlices);
  memcpy(fresh, from.start + bytes, from.bytes() - bytes);
  return Moved::yes;
}

void Region::end_move(Span& from, const Span& to, Pages pages, uint64_t now_ms) {
  const uint32_t first = chunk_of(to);
  const uint32_t end = first + to.slices / kChunkSlices;
  const int32_t before = mappings_in(first, end);
  for (uint32_t index = first; index < end; index++) {
    Chunk& chunk = chunks_[index];
    chunk.seam = index == first;
    chunk.pages = pages;
    chunk.forks = Chunk::kMoved;
    forget_touched(index, kWholeChunk);
  }
  if (end < end_) chunks_[end].seam = true;
  count_mappings(mappings_in(first, end) - before);
  const uint32_t whole = from.slices / kChunkSlices * kChunkSlices;
  const uint32_t rest = from.slices - whole;
  const uint64_t start = uint64_t{chunk_of(from)} * kChunkSlices;
  leave(from, whole);
  if (rest > 0) release(start + whole, rest, now_ms);
}

// The first `slices` of a span, whole chunks, were unmapped, and the span ends.
void Region::leave(Span& span, uint32_t slices) {
  const uint32_t first = chunk_of(span);
  span.kind = SpanKind::none;
  span.slices = 0;
  for (uint32_t index = first; index < first + slices / kChunkSlices; index++) {
    forget_unused(index);
    become_absent(index);
  }
}

}  // namespace near

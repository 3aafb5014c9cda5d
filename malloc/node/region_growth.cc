// How a region grows: it gets chunks from its window, and maps memory for absent chunks.
#include <bit>

#include "base/assert.h"
#include "base/bits.h"
#include "node/bind.h"
#include "node/mappings.h"
#include "node/memory.h"
#include "node/region.h"
#include "node/shard.h"
#include "platform/options.h"

namespace near {
namespace {

constexpr uint32_t kGrowMax = 32;    // a generous plan maps at most this many chunks
constexpr uint32_t kExtentMin = 16;  // chunks to get from the window at once
constexpr uint32_t kExtentMax = 512;

}  // namespace

// The first chunk gets small pages, because a small program leaves most pages of its spans
// untouched. Later chunks get huge pages for dense runs.
size_t Region::small_page_chunks() {
  return option(Option::huge_pages) == 0 ? SIZE_MAX : kSmallPageChunks;
}

// --- chunks from the window ---

void Region::become(uint32_t index, Presence presence) {
  Chunk& chunk = chunks_[index];
  const int32_t before = mappings_at(index);
  if (chunk.presence == Presence::mapped) mapped_--;
  if (presence == Presence::mapped) {
    mapped_++;
    record_seams(index);
  }
  if (presence == Presence::lost) owned_--;
  chunk.presence = presence;
  count_mappings(mappings_at(index) - before);
}

// Adds chunks that the window gave; they are absent.
void Region::own(uint32_t first, uint32_t count) {
  end_ = first + count;
  runs_.grow_to(end_);
  for (uint32_t index = first; index < end_; index++) {
    chunks_[index].order = min_of(owned_++, Chunk::kLate) & Chunk::kLate;
    chunks_[index].free = kWholeChunk;
    become(index, Presence::absent);
    absent_.push_back(chunks_, index);
    runs_.update(index);
  }
}

bool Region::extend_to(uint32_t least, Mutex& lock) {
  uint32_t wished = 0;
  {
    const LockGuard guard(lock);
    const uint32_t fewest = mapping_count.is_full() ? kExtentMax : kExtentMin;
    wished = static_cast<uint32_t>(max_of(least, min_of(max_of(owned_ / 8, fewest), kExtentMax)));
  }
  uint32_t first = 0;
  const uint32_t count = get_chunks(least, wished, first);
  if (count == 0) return false;
  if (topology.count > 1) mapping_count.add(1);  // bound descriptors
  const LockGuard guard(lock);
  own(first, count);
  return true;
}

void Region::own_mapped() {
  uint32_t first = 0;
  const uint32_t count = get_chunks(1, UINT32_MAX, first);
  own(first, count);
  const Growth growth{.small_pages = small_page_chunks()};
  advise_pages(growth, first, end_);
  show_mapped(growth, first, count);
}

void Region::show_mapped(const Growth& growth, uint32_t first, uint32_t count) {
  for (uint32_t index = first; index < first + count; index++) {
    absent_.remove(chunks_, index);
    chunks_[index].pages = pages_of(growth, index);
    become(index, Presence::mapped);
    free_slices_ += kChunkSlices;
    link(index, kChunkSlices);
    runs_.update(index);
  }
}

bool Region::own_reserved(uint32_t first, uint32_t count) {
  if (!window_->extend_table({table_, node_, table_end_}, first + count)) return false;
  own(first, count);
  show_mapped({.small_pages = SIZE_MAX}, first, count);
  return true;
}

bool Region::has_room(uint32_t slices) const {
  if (find_anywhere(slices) != RunTree::kNowhere) return true;
  const size_t chunks = div_up(slices, kChunkSlices);
  return chunks <= min_of(budget_->left, window_->left());
}

// --- planning ---

// How many chunks to map when `chunks` are needed: more if many are mapped.
uint32_t Region::generous_count(uint32_t chunks) const {
  return static_cast<uint32_t>(max_of(chunks, min_of(mapped_ / 8, kGrowMax)));
}

// The slices of a chunk that a growth withdraws: all if the chunk is absent, else the run's.
uint32_t Region::mask_of(const Growth& growth, uint32_t index) const {
  if (!is_mapped(index)) return kWholeChunk;
  const uint64_t start = uint64_t{index} * kChunkSlices;
  const uint64_t first = max_of(growth.first, start);
  const uint64_t end = min_of(growth.first + growth.slices, start + kChunkSlices);
  return bit_run(static_cast<unsigned>(first - start), static_cast<unsigned>(end - first));
}

// Withdraws a run, and the absent chunks behind it up to `end`.
Growth Region::withdraw(uint64_t first, uint32_t slices, uint32_t end) {
  const Growth growth{.first = first, .slices = slices, .end = end};
  for (uint32_t index = growth.begin(); index < end; index++) {
    Chunk& chunk = chunks_[index];
    const uint32_t mask = mask_of(growth, index);
    NEAR_ASSERT((chunk.free & mask) == mask);
    chunk.free &= ~mask;
    chunk.growing = mask;
    if (!is_mapped(index)) {
      absent_.remove(chunks_, index);
      runs_.update(index);
      continue;
    }
    free_slices_ -= size_t{count_bits(mask)};
    changed(index);
  }
  return growth;
}

// How many free slices end the region's last chunk and continue below it, about `most` at most. 0
// if the chunks that the window gives next would not lie right behind them.
uint64_t Region::free_at_end(uint64_t most) const {
  if (end_ != window_->end()) return 0;
  uint64_t free = 0;
  for (uint32_t index = end_; index > 0 && free < most; index--) {
    const uint32_t mask = chunks_[index - 1].free;
    free += static_cast<unsigned>(std::countl_one(mask));
    if (mask != kWholeChunk) break;
  }
  return free;
}

// How many chunks the window must give before a run that fits in no free run.
uint32_t Region::missing_chunks(uint32_t slices) const {
  const uint64_t missing = slices - min_of(free_at_end(slices), slices - 1);
  return static_cast<uint32_t>(div_up(missing, kChunkSlices));
}

// The first slice of a free run in mapped or absent chunks; or kNowhere.
uint64_t Region::find_anywhere(uint32_t slices) const {
  if (!lies_in_chunk(slices)) return runs_.find(slices);
  const uint32_t index = find_in_chunks(slices);
  if (index != kNoChunk) {
    return uint64_t{index} * kChunkSlices + find_in(index, chunks_[index].free, slices);
  }
  if (absent_.empty()) return RunTree::kNowhere;
  const uint32_t absent = absent_to_map();
  return uint64_t{absent} * kChunkSlices + find_in(absent, kWholeChunk, slices);
}

Growth Region::plan_growth(const RunRequest& request, bool generous) {
  const uint32_t slices = request.with_slack();
  const uint64_t first = find_anywhere(slices);
  if (first == RunTree::kNowhere) {
    if (lies_in_chunk(slices)) return {.missing = 1};
    return {.missing = missing_chunks(slices)};
  }
  const auto begin = static_cast<uint32_t>(first / kChunkSlices);
  auto end = static_cast<uint32_t>(div_up(first + slices, kChunkSlices));
  // Dense runs would get the rest with small pages.
  const uint32_t most = generous && request.dense ? begin + generous_count(end - begin) : end;
  const auto is_absent = [this](uint32_t index) {
    return chunks_[index].presence == Presence::absent && chunks_[index].is_whole();
  };
  while (end < most && end < end_ && is_absent(end)) end++;
  Growth growth = withdraw(first, slices, end);
  growth.dense = request.dense;
  growth.joined = pages_to_join(growth);
  growth.at_start = request.alignment == kSliceSize;
  return growth;
}

Growth Region::plan_extension(const Span& span, uint32_t slices) {
  const auto first = static_cast<uint64_t>(&span - spans_) + span.slices;
  const uint64_t end = first + slices;
  const uint64_t owned_end = uint64_t{end_} * kChunkSlices;
  if (end > owned_end) {
    const bool can_continue = end_ == window_->end();
    const bool is_last =
        first >= owned_end || is_free(first, static_cast<uint32_t>(owned_end - first));
    if (!can_continue || !is_last) return {};
    return {.missing = static_cast<uint32_t>(div_up(end - owned_end, kChunkSlices))};
  }
  if (!is_free(first, slices)) return {};
  Growth growth = withdraw(first, slices, static_cast<uint32_t>(div_up(end, kChunkSlices)));
  growth.joined = pages_to_join(growth);
  return growth;
}

// --- mapping ---

// The page size of a chunk when it is mapped: small for runs that are not dense, and while huge
// pages are slow.
Pages Region::pages_of(const Growth& growth, uint32_t index) const {
  if (growth.joined) return *growth.joined;
  const bool small = chunks_[index].order < growth.small_pages || index >= growth.small_from;
  return small ? Pages::small : growth.dense ? Pages::huge : Pages::split;
}

void Region::advise_pages(const Growth& growth, uint32_t begin, uint32_t end) {
  while (begin < end) {
    const bool huge = pages_of(growth, begin) == Pages::huge;
    const uint32_t first = begin;
    while (begin < end && (pages_of(growth, begin) == Pages::huge) == huge) begin++;
    os::advise_huge_pages(chunk_start(first), size_t{begin - first} << kChunkShift, huge);
  }
}

os::Mapped Region::map_run(const Growth& growth, uint32_t first, uint32_t end) {
  char* start = chunk_start(first);
  const size_t bytes = size_t{end - first} << kChunkShift;
  const os::Mapped mapped = os::map(start, bytes);
  if (mapped != os::Mapped::done) return mapped;
  bind_to(node_, start, bytes);
  advise_pages(growth, first, end);
  return mapped;
}

// Undoes the mapping of the chunks from `first` up to `end` when a later part of the growth was
// refused; they still count as absent.
void Region::unmap_run(uint32_t first, uint32_t end) {
  for (uint32_t index = first; index < end; index++) {
    if (!is_mapped(index)) os::unmap(chunk_start(index), kChunkSize);
  }
}

// Touches the first huge page of a growth that is mapped, which the run begins in, to see what huge
// pages cost now. If they are slow, the chunks behind it get small ones.
void Region::try_huge_page(Growth& growth) {
  const uint32_t first = growth.begin();
  if (!growth.at_start || is_mapped(first) || pages_of(growth, first) != Pages::huge) return;
  huge_cost_.record(os::touch(chunk_start(first)));
  if (!huge_cost_.is_high()) return;
  growth.small_from = first + 1;
  for (uint32_t index = growth.small_from; index < growth.end; index++) {
    if (!is_mapped(index)) advise_pages(growth, index, index + 1);
  }
}

os::Mapped Region::map_growth(Growth& growth) {
  growth.small_pages = small_page_chunks();
  if (huge_cost_.is_high()) growth.small_from = 0;
  for (uint32_t index = growth.begin(); index < growth.end;) {
    const uint32_t first = index;
    while (index < growth.end && !is_mapped(index)) index++;
    if (index == first) {
      index++;
      continue;
    }
    const os::Mapped mapped = map_run(growth, first, index);
    if (mapped == os::Mapped::done) continue;
    if (mapped == os::Mapped::occupied) window_->end_here();
    unmap_run(growth.begin(), first);
    return mapped;
  }
  try_huge_page(growth);
  if (growth.small_from < growth.end) huge_cost_.count_small(growth.end - growth.begin());
  return os::Mapped::done;
}

void Region::end_growth_of(const Growth& growth, uint32_t index, os::Mapped mapped) {
  Chunk& chunk = chunks_[index];
  const uint32_t slices = chunk.growing;
  chunk.growing = 0;
  if (is_mapped(index)) {
    chunk.free |= slices;
    free_slices_ += size_t{count_bits(slices)};
    return changed(index);
  }
  if (mapped == os::Mapped::occupied) return become(index, Presence::lost);
  chunk.free = kWholeChunk;
  if (mapped == os::Mapped::done) {
    chunk.pages = pages_of(growth, index);
    become(index, Presence::mapped);
    free_slices_ += kChunkSlices;
    link(index, kChunkSlices);
  } else {
    absent_.push_front(chunks_, index);
  }
  runs_.update(index);
}

void Region::end_growth(const Growth& growth, os::Mapped mapped) {
  growths_++;
  for (uint32_t index = growth.begin(); index < growth.end; index++) {
    end_growth_of(growth, index, mapped);
  }
}

}  // namespace near

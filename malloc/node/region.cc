#include "node/region.h"

#include <bit>

#include "base/assert.h"
#include "base/bits.h"
#include "node/density.h"
#include "node/memory.h"
#include "node/node.h"
#include "node/purge_signal.h"
#include "platform/probe.h"

namespace near {

void Region::init(Window& window, unsigned table, Shard& shard, Budget& budget) {
  window_ = &window;
  base_ = window.base();
  spans_ = window.spans();
  chunks_ = window.table(table);
  table_ = table;
  shard_ = &shard;
  node_ = shard.node().number();
  budget_ = &budget;
  runs_.init(chunks_);
  for (auto& set : fitting_) {
    for (FitList& list : set) list.clear();
  }
  absent_.clear();
  waiting_.clear();
  stuck_.clear();
  whole_.clear();
}

// --- lists of chunks ---

void Region::link(uint32_t index, unsigned longest) {
  Chunk& chunk = chunks_[index];
  chunk.bucket = longest & 0x3f;
  chunk.in_dirty = chunk.dirty != 0;
  fitting_[chunk.in_dirty][chunk.bucket].push_front(chunks_, index);
  filled_[chunk.in_dirty] |= uint64_t{1} << chunk.bucket;
}

void Region::unlink(uint32_t index) {
  const Chunk& chunk = chunks_[index];
  FitList& list = fitting_[chunk.in_dirty][chunk.bucket];
  list.remove(chunks_, index);
  if (list.empty()) filled_[chunk.in_dirty] &= ~(uint64_t{1} << chunk.bucket);
}

// Moves a mapped chunk to the lists that its free and dirty slices call for.
NEAR_INLINE void Region::relist(uint32_t index) {
  const Chunk& chunk = chunks_[index];
  const unsigned longest = longest_run(chunk.free);
  if (chunk.bucket != longest || chunk.in_dirty != (chunk.dirty != 0)) {
    unlink(index);
    link(index, longest);
  }
  wait_again(index);
}

// Called after the free or dirty slices of a mapped chunk changed.
void Region::changed(uint32_t index) {
  relist(index);
  runs_.update(index);
}

// As changed, if only the slices of the mask were taken or given back. The tree of runs knows only
// the runs at the ends of a chunk.
NEAR_INLINE void Region::changed(uint32_t index, uint32_t mask) {
  relist(index);
  const uint32_t free = chunks_[index].free | mask;
  const uint32_t head = free & ~(free + 1);
  const int tail = std::countl_one(free);
  if ((head & mask) != 0 || std::countl_zero(mask) < tail) runs_.update(index);
}

// --- runs of slices ---

bool Region::are_mapped(uint64_t first, uint32_t slices) const {
  const auto end = static_cast<uint32_t>(div_up(first + slices, kChunkSlices));
  for (auto index = static_cast<uint32_t>(first / kChunkSlices); index < end; index++) {
    if (!is_mapped(index)) return false;
  }
  return true;
}

// True if the slices are free, in mapped or absent chunks.
bool Region::is_free(uint64_t first, uint32_t slices) const {
  while (slices > 0) {
    const auto index = static_cast<uint32_t>(first / kChunkSlices);
    const auto offset = static_cast<unsigned>(first % kChunkSlices);
    const auto count = static_cast<unsigned>(min_of(kChunkSlices - offset, slices));
    const uint32_t mask = bit_run(offset, count);
    if (index >= end_ || (chunks_[index].free & mask) != mask) return false;
    first += count;
    slices -= count;
  }
  return true;
}

// Marks free slices as used. Returns how many of them were clean. Chunks without resident pages get
// small ones for a run that is not dense.
uint32_t Region::claim(uint64_t first, uint32_t slices, bool dense) {
  free_slices_ -= slices;
  uint32_t clean = slices;
  while (slices > 0) {
    const auto index = static_cast<uint32_t>(first / kChunkSlices);
    const auto offset = static_cast<unsigned>(first % kChunkSlices);
    const auto count = static_cast<unsigned>(min_of(kChunkSlices - offset, slices));
    const uint32_t mask = bit_run(offset, count);
    Chunk& chunk = chunks_[index];
    NEAR_ASSERT((chunk.free & mask) == mask && is_mapped(index));
    if (!dense && chunk.is_whole() && chunk.dirty == 0) update_huge_page_advice(index, false);
    if (chunk.is_whole() && mask != kWholeChunk && chunk.pages == Pages::huge) {
      opened_ = {.known = true, .chunk = index};
      purge_signal.ask();
    }
    clean -= clear_dirty(index, mask, count);
    chunk.free &= ~mask;
    changed(index, mask);
    first += count;
    slices -= count;
  }
  return clean;
}

void Region::release(uint64_t first, uint32_t slices, uint64_t now_ms) {
  free_slices_ += slices;
  while (slices > 0) {
    const auto index = static_cast<uint32_t>(first / kChunkSlices);
    const auto offset = static_cast<unsigned>(first % kChunkSlices);
    const auto count = static_cast<unsigned>(min_of(kChunkSlices - offset, slices));
    const uint32_t mask = bit_run(offset, count);
    Chunk& chunk = chunks_[index];
    NEAR_ASSERT(((chunk.free | chunk.away | chunk.growing) & mask) == 0 && is_mapped(index));
    chunk.free |= mask;
    add_dirty(index, mask, count);
    if (chunk.stamp != now_ms && chunk.waiting == Waiting::in_part && waiting_.back() != index) {
      wait_as(index, Waiting::no);  // `changed` puts it at the end of the list
    }
    chunk.stamp = now_ms;
    changed(index, mask);
    first += count;
    slices -= count;
  }
}

// A mapped chunk with a free run of `slices` (at most kChunkSlices), or kNoChunk.
uint32_t Region::find_in_chunks(uint32_t slices) const {
  for (unsigned dirty = 2; dirty-- > 0;) {
    const uint64_t fitting = filled_[dirty] >> slices << slices;
    if (fitting != 0) return fitting_[dirty][std::countr_zero(fitting)].front();
  }
  return kNoChunk;
}

// The first slice of a run in `mask`, the slices of a chunk; kChunkSlices or more if there is none.
// A random start must not waste room: runs of one length still fill a chunk to its last slice.
unsigned Region::find_in(uint32_t chunk, uint32_t mask, uint32_t slices) const {
  const bool anywhere = chunk < kPlacedChunks && lies_in_chunk(slices);
  const uint32_t first = anywhere ? first_slice_ & ~(slices - 1) : 0;
  const unsigned behind = find_run(mask & kWholeChunk << first, slices);
  return behind < kChunkSlices ? behind : find_run(mask, slices);
}

// The first slice of a free run of mapped slices, or kNowhere. Among runs over several chunks only
// the lowest is tried: if a part of it is absent, the region must grow.
uint64_t Region::find(uint32_t slices) const {
  const uint32_t index = slices > kChunkSlices ? kNoChunk : find_in_chunks(slices);
  if (!lies_in_chunk(slices) && (index == kNoChunk || chunks_[index].is_whole())) {
    const uint64_t first = runs_.find(slices);
    if (first != RunTree::kNowhere && are_mapped(first, slices)) return first;
  }
  if (index == kNoChunk) return RunTree::kNowhere;
  const Chunk& chunk = chunks_[index];
  unsigned offset = find_in(index, chunk.dirty & chunk.free, slices);
  if (offset >= kChunkSlices) offset = find_in(index, chunk.free, slices);
  return uint64_t{index} * kChunkSlices + offset;
}

// Makes a span of the free slices from `first` on; they include room to align it.
Span* Region::make_span(uint64_t first, const RunRequest& request, uint32_t& clean) {
  const uintptr_t address = address_of(first);
  first += (align_up(address, request.alignment) - address) >> kSliceShift;
  clean = claim(first, request.slices, request.dense);
  Span* span = &spans_[first];
  const auto begin = static_cast<uint32_t>(first / kChunkSlices);
  const auto last = static_cast<uint32_t>((first + request.slices - 1) / kChunkSlices);
  const bool huge = has_huge_pages(begin) || has_huge_pages(last);
  span->watched =
      clean == request.slices && !request.dense && !huge ? Densities::kMayBe : Densities::kNot;
  span->start = base_ + (first << kSliceShift);
  span->region = this;
  span->node = static_cast<uint8_t>(node_);
  span->slices = request.slices;
  NEAR_PROBE("slices_taken", topology.kernel_id[node_], request.slices, address_of(first));
  return span;
}

Span* Region::take(const RunRequest& request, uint32_t& clean) {
  const uint64_t first = find(request.with_slack());
  return first == RunTree::kNowhere ? nullptr : make_span(first, request, clean);
}

bool Region::extend(Span* span, uint32_t slices) {
  const auto first = static_cast<uint64_t>(span - spans_) + span->slices;
  if (!is_free(first, slices) || !are_mapped(first, slices)) return false;
  claim(first, slices, true);
  span->slices += slices;
  NEAR_PROBE("slices_taken", topology.kernel_id[node_], slices, address_of(first));
  return true;
}

void Region::give(Span* span, uint32_t keep, uint64_t now_ms) {
  const auto first = static_cast<uint64_t>(span - spans_);
  const uint32_t slices = span->slices - keep;
  if (keep == 0) {
    if (span->kind == SpanKind::blocks) {
      for (uint32_t i = 1; i < slices; i++) span[i].kind = SpanKind::none;
    }
    span->kind = SpanKind::none;
    span->owner.store(nullptr, kRelaxed);  // relaxed: no thread holds a block of it
  }
  span->slices = keep;
  NEAR_PROBE("slices_given", topology.kernel_id[node_], slices, address_of(first + keep));
  release(first + keep, slices, now_ms);
}

}  // namespace near

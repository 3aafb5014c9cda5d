// How a region gives memory back: which chunks wait to be purged, and how they are withdrawn and
// put back.
#include <bit>

#include "base/assert.h"
#include "base/bits.h"
#include "node/mappings.h"
#include "node/region.h"
#include "platform/clock.h"

namespace near {
namespace {

size_t count_of(uint32_t mask) { return size_t{count_bits(mask)}; }

}  // namespace

// --- what waits ---

// The `count` slices of the mask, none of which is dirty, become dirty.
void Region::add_dirty(uint32_t index, uint32_t mask, uint32_t count) {
  Chunk& chunk = chunks_[index];
  NEAR_ASSERT((chunk.dirty & mask) == 0);
  chunk.dirty |= mask;
  dirty_slices_ += count;
  if (chunk.waiting == Waiting::stuck) stuck_slices_ += count;
}

// The `count` slices of the mask are dirty no more. Returns how many of them were.
uint32_t Region::clear_dirty(uint32_t index, uint32_t mask, uint32_t count) {
  Chunk& chunk = chunks_[index];
  const uint32_t dirty = chunk.dirty & mask;
  if (dirty == 0) return 0;
  if (dirty != mask) count = count_bits(dirty);
  chunk.dirty &= ~mask;
  dirty_slices_ -= count;
  if (chunk.waiting == Waiting::stuck) stuck_slices_ -= count;
  return count;
}

// Moves a chunk to another list. Between in_part and whole it keeps its place in waiting_.
void Region::wait_as(uint32_t index, Waiting how) {
  Chunk& chunk = chunks_[index];
  const auto is_aging = [](Waiting each) {
    return each == Waiting::in_part || each == Waiting::whole;
  };
  const Waiting before = chunk.waiting;
  chunk.waiting = how;
  if (before == Waiting::whole) whole_.remove(chunks_, index);
  if (how == Waiting::whole) whole_.push_back(chunks_, index);
  if (before == Waiting::stuck) {
    stuck_.remove(chunks_, index);
    stuck_slices_ -= count_of(chunk.dirty);
  }
  if (how == Waiting::stuck) stuck_slices_ += count_of(chunk.dirty);
  if (is_aging(before) == is_aging(how)) return;
  if (is_aging(before)) waiting_.remove(chunks_, index);
  if (is_aging(how)) waiting_.push_back(chunks_, index);
  if (how == Waiting::stuck) stuck_.push_back(chunks_, index);
}

// Called after the free or dirty slices of a chunk changed.
void Region::wait_again(uint32_t index) {
  const Chunk& chunk = chunks_[index];
  Waiting how = Waiting::no;
  if (chunk.dirty != 0) {
    how = chunk.is_whole()                  ? Waiting::whole
          : chunk.waiting == Waiting::stuck ? Waiting::stuck
                                            : Waiting::in_part;
  }
  if (how != chunk.waiting) wait_as(index, how);
}

uint32_t Region::find_purgeable(uint64_t now_ms, uint32_t age_ms, bool whole_only) const {
  uint32_t index = whole_only ? whole_.front() : waiting_.front();
  // Skips chunks from which other threads have withdrawn slices; there are only a few at a time.
  while (index != kNoChunk && (chunks_[index].away | chunks_[index].growing) != 0)
    index = whole_only ? whole_.after(chunks_, index) : waiting_.after(chunks_, index);
  if (index == kNoChunk || !is_old(now_ms, chunks_[index].stamp, age_ms)) return kNoChunk;
  return index;
}

void Region::look_at_unused(uint64_t now_ms, uint32_t age_ms) {
  if (!has_unused()) return;
  const uint32_t index = opened_.chunk;
  Chunk& chunk = chunks_[index];
  if (chunk.growing != 0) return;  // these slices come back if the system refuses the run
  const uint32_t unused = chunk.free & ~chunk.dirty;
  if (unused == 0 || chunk.is_whole() || !is_mapped(index)) return forget_unused(index);
  if (unused != opened_.unused) opened_ = {true, index, unused, now_ms};
  if (!is_old(now_ms, opened_.since_ms, age_ms)) return;
  forget_unused(index);
  if (chunk.waiting == Waiting::in_part) wait_as(index, Waiting::no);  // to the end of the list
  add_dirty(index, unused, count_bits(unused));
  chunk.stamp = now_ms;
  changed(index);
}

void Region::forget_unused(uint32_t index) {
  if (opened_.chunk == index) opened_ = {};
}

void Region::record_stuck(uint32_t index) {
  const Chunk& chunk = chunks_[index];
  if (chunk.dirty != 0 && chunk.waiting != Waiting::stuck) wait_as(index, Waiting::stuck);
}

void Region::retry_stuck() {
  while (!stuck_.empty()) {
    const uint32_t index = stuck_.front();
    wait_as(index, chunks_[index].is_whole() ? Waiting::whole : Waiting::in_part);
  }
}

// --- a part of a chunk, or all of it in place ---

uint32_t Region::withdraw_dirty(uint32_t index) {
  Chunk& chunk = chunks_[index];
  NEAR_ASSERT(chunk.away == 0);
  const bool whole = chunk.is_whole();
  const uint32_t slices = chunk.pages == Pages::huge ? chunk.free : chunk.dirty;
  if (chunk.pages == Pages::huge) forget_unused(index);
  free_slices_ -= count_of(slices);
  chunk.free &= ~slices;
  chunk.away = slices;
  away_++;
  clear_dirty(index, kWholeChunk, kChunkSlices);
  changed(index);
  update_huge_page_advice(index, whole);
  return slices;
}

// Called when a part of a chunk's pages is purged, or (`whole`) all of them. Advises small pages
// for a partly purged chunk, because a huge page would bring the purged part back.
void Region::update_huge_page_advice(uint32_t index, bool whole) {
  const Chunk& chunk = chunks_[index];
  if (chunk.pages != (whole ? Pages::split : Pages::huge)) return;
  if (!set_pages(index, whole ? Pages::huge : Pages::split)) return;
  os::advise_huge_pages(chunk_start(index), kChunkSize, whole);
}

// The slices in the mask were given back: none of their pages was written since.
void Region::forget_touched(uint32_t index, uint32_t slices) {
  for (; slices != 0; slices &= slices - 1) {
    Span& slice = spans_[size_t{index} * kChunkSlices + std::countr_zero(slices)];
    if (slice.touched != 0) slice.touched = 0;
  }
}

void Region::put_back(uint32_t index, uint32_t slices, uint32_t dirty) {
  Chunk& chunk = chunks_[index];
  forget_touched(index, slices & ~dirty);
  chunk.away = 0;
  away_--;
  chunk.free |= slices;
  free_slices_ += count_of(slices);
  add_dirty(index, dirty, count_bits(dirty));
  changed(index);
}

void Region::restore_withdrawn() {
  for (uint32_t index = 0; index < end_ && away_ > 0; index++) {
    const uint32_t slices = chunks_[index].away;
    if (slices != 0) put_back(index, slices, slices);
  }
}

// --- a whole chunk ---

bool Region::can_unmap(uint32_t index) const {
  return chunks_[index].is_whole() &&
         mapping_count.allows(mappings_without(index) - mappings_at(index));
}

uint32_t Region::find_clean_whole() const {
  const uint32_t index = fitting_[0][kChunkSlices].front();
  return index != kNoChunk && can_unmap(index) ? index : kNoChunk;
}

void Region::withdraw_whole(uint32_t index) {
  Chunk& chunk = chunks_[index];
  NEAR_ASSERT(chunk.is_whole());
  forget_unused(index);
  free_slices_ -= kChunkSlices;
  chunk.free = 0;
  chunk.away = kWholeChunk;
  away_++;
  clear_dirty(index, kWholeChunk, kChunkSlices);
  changed(index);
}

void Region::put_back_whole(uint32_t index, uint32_t dirty, bool unmapped) {
  if (!unmapped) return put_back(index, kWholeChunk, dirty);
  chunks_[index].away = 0;
  away_--;
  become_absent(index);
}

// The chunk was unmapped. Requires a chunk without free slices.
void Region::become_absent(uint32_t index) {
  forget_touched(index, kWholeChunk);
  unlink(index);
  chunks_[index].free = kWholeChunk;
  become(index, Presence::absent);
  absent_.push_front(chunks_, index);
  runs_.update(index);
}

}  // namespace near

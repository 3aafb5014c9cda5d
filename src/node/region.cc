#include "node/region.h"

#include <bit>

#include "base/assert.h"
#include "platform/clock.h"
#include "platform/message.h"
#include "platform/options.h"
#include "platform/os.h"

namespace near {
namespace {

constexpr uint64_t kNowhere = ~uint64_t{0};
constexpr uint32_t kDescribeStep =
    16;  // chunks whose descriptors are committed together: 64 KiB of them
constexpr uint32_t kGrowMax = 32;         // chunks committed at once at most
constexpr uint32_t kSmallPageChunks = 4;  // 8 MiB for each heap
constexpr int32_t kMostSplit = 4000;      // chunks: each may be a mapping of its own

}  // namespace

constinit Atomic<uint32_t> heaps_in_use{0};

void Region::init(char* base, Span* spans, Chunk* chunks, uint32_t chunk_count, unsigned node) {
  base_ = base;
  spans_ = spans;
  chunks_ = chunks;
  chunk_count_ = chunk_count;
  node_ = node;
  for (auto& set : heads_) {
    for (uint32_t& head : set) head = kNoChunk;
  }
}

// --- lists of chunks ---

void Region::link(uint32_t index, unsigned bucket) {
  Chunk& chunk = chunks_[index];
  chunk.bucket = static_cast<uint8_t>(bucket);
  chunk.in_dirty = chunk.dirty != 0;
  uint32_t& head = heads_[chunk.in_dirty][chunk.bucket];
  chunk.prev = kNoChunk;
  chunk.next = head;
  if (head != kNoChunk) chunks_[head].prev = index;
  head = index;
  filled_[chunk.in_dirty] |= uint64_t{1} << chunk.bucket;
}

void Region::unlink(uint32_t index) {
  Chunk& chunk = chunks_[index];
  if (chunk.next != kNoChunk) chunks_[chunk.next].prev = chunk.prev;
  if (chunk.prev != kNoChunk) {
    chunks_[chunk.prev].next = chunk.next;
    return;
  }
  heads_[chunk.in_dirty][chunk.bucket] = chunk.next;
  if (chunk.next == kNoChunk) filled_[chunk.in_dirty] &= ~(uint64_t{1} << chunk.bucket);
}

void Region::relink(uint32_t index) {
  const Chunk& chunk = chunks_[index];
  const unsigned bucket = longest_run(chunk.free);
  if (chunk.bucket == bucket && chunk.in_dirty == (chunk.dirty != 0)) return;
  unlink(index);
  link(index, bucket);
}

// --- growing ---

bool Region::commit_to(uint32_t chunk_end) {
  if (chunk_end > described_) {
    const auto end =
        static_cast<uint32_t>(min_of(align_up(chunk_end, kDescribeStep), chunk_count_));
    const size_t page = os::page_size();
    Span* first = &spans_[size_t{described_} * kChunkSlices];
    Span* last = &spans_[size_t{end} * kChunkSlices];
    const auto spans_from = align_down(reinterpret_cast<uintptr_t>(first), page);
    const auto spans_to = align_up(reinterpret_cast<uintptr_t>(last), page);
    const auto chunks_from = align_down(reinterpret_cast<uintptr_t>(&chunks_[described_]), page);
    const auto chunks_to = align_up(reinterpret_cast<uintptr_t>(&chunks_[end]), page);
    commit_calls_ += 2;
    if (!os::commit(reinterpret_cast<void*>(spans_from), spans_to - spans_from)) return false;
    if (!os::commit(reinterpret_cast<void*>(chunks_from), chunks_to - chunks_from)) return false;
    described_ = end;
  }
  char* from = chunk_start(committed_);
  const size_t bytes = size_t{chunk_end - committed_} << kChunkShift;
  commit_calls_++;
  if (!os::commit(from, bytes)) return false;
  advise_pages(committed_, chunk_end);
  while (committed_ < chunk_end) {
    chunks_[committed_].free = kWholeChunk;
    chunks_[committed_].dirty = 0;
    link(committed_++, kChunkSlices);
    free_slices_ += kChunkSlices;
  }
  return true;
}

// Small pages for the first chunks of each heap, because small programs and threads that use little
// leave most pages of their spans untouched; huge ones beyond, where they pay.
void Region::advise_pages(uint32_t begin, uint32_t end) {
  // relaxed: a policy. A large block may be the first of all, before there is a heap.
  const size_t heaps = max_of(heaps_in_use.load(kRelaxed), 1);
  const auto small_chunks = static_cast<uint32_t>(kSmallPageChunks * heaps);
  const uint32_t border = option(Option::huge_pages) == 0 ? end : small_chunks;
  const auto small_end = static_cast<uint32_t>(min_of(end, max_of(begin, border)));
  if (small_end > begin) {
    os::advise_huge_pages(chunk_start(begin), size_t{small_end - begin} << kChunkShift, false);
  }
  if (end > small_end) {
    os::advise_huge_pages(chunk_start(small_end), size_t{end - small_end} << kChunkShift, true);
  }
  for (uint32_t index = begin; index < end; index++) {
    chunks_[index].pages = index < small_end ? Pages::small : Pages::huge;
  }
}

// Makes at least `chunks` more chunks usable at the high-water mark.
bool Region::grow(uint32_t chunks) {
  const uint32_t left = chunk_count_ - committed_;
  if (chunks > left) return false;
  auto generous = static_cast<uint32_t>(max_of(chunks, min_of(committed_ / 8, kGrowMax)));
  if (committed_ < kSmallPageChunks) {
    generous =
        static_cast<uint32_t>(max_of(chunks, min_of(generous, kSmallPageChunks - committed_)));
  }
  generous = static_cast<uint32_t>(min_of(max_of(generous, 1), left));
  return commit_to(committed_ + generous) || (generous > chunks && commit_to(committed_ + chunks));
}

// --- runs of slices ---

bool Region::is_free(uint64_t first, uint32_t slices) const {
  while (slices > 0) {
    const auto index = static_cast<uint32_t>(first / kChunkSlices);
    const auto offset = static_cast<unsigned>(first % kChunkSlices);
    const auto count = static_cast<unsigned>(min_of(kChunkSlices - offset, slices));
    const uint32_t mask = bit_run(offset, count);
    if (index >= committed_ || (chunks_[index].free & mask) != mask) return false;
    first += count;
    slices -= count;
  }
  return true;
}

// Takes free slices out of their chunks. Returns how many of them were clean.
uint32_t Region::claim(uint64_t first, uint32_t slices) {
  free_slices_ -= slices;
  uint32_t clean = slices;
  while (slices > 0) {
    const auto index = static_cast<uint32_t>(first / kChunkSlices);
    const auto offset = static_cast<unsigned>(first % kChunkSlices);
    const auto count = static_cast<unsigned>(min_of(kChunkSlices - offset, slices));
    const uint32_t mask = bit_run(offset, count);
    Chunk& chunk = chunks_[index];
    NEAR_ASSERT((chunk.free & mask) == mask);
    const auto dirty = static_cast<uint32_t>(std::popcount(chunk.dirty & mask));
    clean -= dirty;
    dirty_slices_ -= dirty;
    chunk.free &= ~mask;
    chunk.dirty &= ~mask;
    relink(index);
    first += count;
    slices -= count;
  }
  return clean;
}

void Region::release(uint64_t first, uint32_t slices, uint32_t now_ms) {
  free_slices_ += slices;
  dirty_slices_ += slices;
  first_whole_ = static_cast<uint32_t>(min_of(first_whole_, first / kChunkSlices));
  while (slices > 0) {
    const auto index = static_cast<uint32_t>(first / kChunkSlices);
    const auto offset = static_cast<unsigned>(first % kChunkSlices);
    const auto count = static_cast<unsigned>(min_of(kChunkSlices - offset, slices));
    const uint32_t mask = bit_run(offset, count);
    Chunk& chunk = chunks_[index];
    NEAR_ASSERT((chunk.free & mask) == 0);
    chunk.free |= mask;
    chunk.dirty |= mask;
    chunk.stamp = now_ms;
    relink(index);
    first += count;
    slices -= count;
  }
}

// A chunk with a run of `slices` (at most a chunk's), or kNoChunk.
uint32_t Region::find_in_chunks(uint32_t slices) const {
  for (unsigned dirty = 2; dirty-- > 0;) {
    const uint64_t fitting = filled_[dirty] >> slices << slices;
    if (fitting != 0) return heads_[dirty][std::countr_zero(fitting)];
  }
  return kNoChunk;
}

// The first slice of a run longer than a chunk: whole chunks, and the head of the last. Grows the
// region if need be.
uint64_t Region::find_across_chunks(uint32_t slices) {
  const auto chunks = static_cast<uint32_t>(div_up(slices, kChunkSlices));
  const uint32_t rest = slices % kChunkSlices;
  const uint32_t last_mask = rest == 0 ? kWholeChunk : bit_run(0, rest);
  while (first_whole_ < committed_ && chunks_[first_whole_].free != kWholeChunk) first_whole_++;
  uint32_t begin = first_whole_;  // of the run that is being looked at
  uint32_t at = begin;
  for (; at < committed_; at++) {
    const uint32_t free = chunks_[at].free;
    if (at - begin == chunks - 1 && (free & last_mask) == last_mask)
      return uint64_t{begin} * kChunkSlices;
    if (free != kWholeChunk) begin = at + 1;
  }
  const uint32_t missing = chunks - (at - begin);
  return grow(missing) ? uint64_t{begin} * kChunkSlices : kNowhere;
}

// The first slice of a free run, or kNowhere. Grows the region if need be.
uint64_t Region::find(uint32_t slices) {
  if (slices > kChunkSlices) return find_across_chunks(slices);
  uint32_t index = find_in_chunks(slices);
  if (index == kNoChunk) {
    if (!grow(1)) return kNowhere;
    index = find_in_chunks(slices);
  }
  const Chunk& chunk = chunks_[index];
  unsigned offset = find_run(chunk.dirty, slices);
  if (offset >= kChunkSlices) offset = find_run(chunk.free, slices);
  return uint64_t{index} * kChunkSlices + offset;
}

Span* Region::take(uint32_t slices, uint32_t& clean, size_t alignment) {
  const auto slack = static_cast<uint32_t>(alignment >> kSliceShift) - 1;
  uint64_t first = find(slices + slack);
  if (first == kNowhere) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(base_) + (first << kSliceShift);
  first += (align_up(address, alignment) - address) >> kSliceShift;
  clean = claim(first, slices);
  Span* span = &spans_[first];
  span->start = base_ + (first << kSliceShift);
  span->region = this;
  span->node = static_cast<uint8_t>(node_);
  span->slices = slices;
  return span;
}

bool Region::extend(Span* span, uint32_t slices) {
  const auto first = static_cast<uint64_t>(span - spans_) + span->slices;
  const uint64_t end = first + slices;
  if (end > uint64_t{chunk_count_} * kChunkSlices) return false;
  if (end > uint64_t{committed_} * kChunkSlices) {
    const uint64_t usable = uint64_t{committed_} * kChunkSlices;
    if (first < usable && !is_free(first, static_cast<uint32_t>(usable - first))) return false;
    if (!grow(static_cast<uint32_t>(div_up(end - usable, kChunkSlices)))) return false;
  }
  if (!is_free(first, slices)) return false;
  claim(first, slices);
  span->slices += slices;
  return true;
}

void Region::give(Span* span, uint32_t keep, uint32_t now_ms) {
  const auto first = static_cast<uint64_t>(span - spans_);
  const uint32_t slices = span->slices - keep;
  if (keep == 0) {
    if (span->kind == SpanKind::blocks) {
      for (uint32_t i = 1; i < slices; i++) span[i].kind = SpanKind::none;
    }
    span->kind = SpanKind::none;
    span->owner.store(nullptr, kRelaxed);  // relaxed: nobody holds a block of it
  }
  span->slices = keep;
  release(first + keep, slices, now_ms);
}

// --- purging ---

uint32_t Region::find_purgeable(uint32_t from, uint32_t now_ms, uint32_t age_ms) const {
  for (uint32_t index = from; index < committed_; index++) {
    if (chunks_[index].dirty != 0 && is_old(now_ms, chunks_[index].stamp, age_ms)) return index;
  }
  return kNoChunk;
}

uint32_t Region::withdraw_dirty(uint32_t index) {
  Chunk& chunk = chunks_[index];
  const bool whole = chunk.free == kWholeChunk;
  const uint32_t slices = chunk.pages == Pages::huge ? chunk.free : chunk.dirty;
  dirty_slices_ -= static_cast<size_t>(std::popcount(chunk.dirty));
  free_slices_ -= static_cast<size_t>(std::popcount(slices));
  chunk.free &= ~slices;
  chunk.dirty = 0;
  relink(index);
  adapt_pages(index, whole);
  return slices;
}

// A chunk loses a part of its pages, or (`whole`) all of them. Asking for huge ones would bring the
// part back.
void Region::adapt_pages(uint32_t index, bool whole) {
  Chunk& chunk = chunks_[index];
  if (chunk.pages != (whole ? Pages::split : Pages::huge)) return;
  if (!whole && split_ == kMostSplit) return;
  split_ += whole ? -1 : 1;
  chunk.pages = whole ? Pages::huge : Pages::split;
  os::advise_huge_pages(chunk_start(index), kChunkSize, whole);
}

void Region::put_back(uint32_t index, uint32_t slices, uint32_t dirty) {
  Chunk& chunk = chunks_[index];
  chunk.free |= slices;
  free_slices_ += static_cast<size_t>(std::popcount(slices));
  chunk.dirty |= dirty;
  dirty_slices_ += static_cast<size_t>(std::popcount(dirty));
  first_whole_ = static_cast<uint32_t>(min_of(first_whole_, index));
  relink(index);
}

// --- looking ---

size_t Region::check() const {
  size_t wrong = 0;
  const auto expect = [&](bool holds, const char* what, uint32_t index) {
    if (holds) return;
    wrong++;
    message("region of node %u, chunk %u: %s", node_, index, what);
  };
  size_t free = 0;
  size_t dirty = 0;
  for (uint32_t index = 0; index < committed_; index++) {
    const Chunk& chunk = chunks_[index];
    free += static_cast<size_t>(std::popcount(chunk.free));
    dirty += static_cast<size_t>(std::popcount(chunk.dirty));
    expect((chunk.dirty & ~chunk.free) == 0, "a dirty slice is not free", index);
    expect(chunk.bucket == longest_run(chunk.free), "wrong bucket", index);
    expect(chunk.in_dirty == (chunk.dirty != 0), "in the wrong set of lists", index);
    const uint32_t before = chunk.prev;
    expect(
        (before == kNoChunk ? heads_[chunk.in_dirty][chunk.bucket] : chunks_[before].next) == index,
        "not linked in its list", index);
  }
  expect(free == free_slices_, "the count of free slices is wrong", kNoChunk);
  expect(dirty == dirty_slices_, "the count of dirty slices is wrong", kNoChunk);
  return wrong;
}

}  // namespace near

// How a shard gives memory back to the system: one chunk at a time, the one dirty longest first.
#include <bit>

#include "base/bits.h"
#include "node/events.h"
#include "node/node.h"
#include "node/shard.h"
#include "platform/clock.h"
#include "platform/os.h"
#include "sync/inside.h"

namespace near {

// Drops the pages of a chunk's dirty slices. Returns the bytes given back.
size_t Shard::purge_chunk(Region& region, uint32_t index) {
  const Inside inside;  // the slices are withdrawn while the lock is not held
  uint32_t dirty = 0;
  uint32_t slices = 0;
  {
    const LockGuard guard(lock);
    const Chunk& chunk = region.chunk(index);
    dirty = chunk.dirty;
    if (dirty == 0 || (chunk.away | chunk.growing) != 0 || !region.is_mapped(index)) return 0;
    slices = region.withdraw_dirty(index);
  }
  char* start = region.chunk_start(index);
  bool purged = true;
  uint32_t calls = 0;
  for (uint32_t left = slices; left != 0; calls++) {
    const auto first = static_cast<unsigned>(std::countr_zero(left));
    const auto count = static_cast<unsigned>(std::countr_one(left >> first));
    left &= ~bit_run(first, count);
    purged &= os::purge(start + (size_t{first} << kSliceShift), size_t{count} << kSliceShift);
  }
  const size_t bytes = purged ? size_t{count_bits(dirty)} << kSliceShift : 0;
  const LockGuard guard(lock);
  region.put_back(index, slices, purged ? 0 : dirty);
  if (!purged) region.record_stuck(index);
  purged_bytes_ += bytes;
  purge_calls_ += calls;
  return bytes;
}

// Unmaps a chunk that is wholly free, or drops its pages if that is refused. The lock `growing`
// keeps other threads from growing and from forking meanwhile: a child could not know whether the
// chunk is still mapped.
size_t Shard::unmap_chunk(Region& region, uint32_t index) {
  {
    const LockGuard growing_guard(growing);
    uint32_t dirty = 0;
    {
      const LockGuard guard(lock);
      if (!region.is_mapped(index) || !region.can_unmap(index)) return 0;
      dirty = region.chunk(index).dirty;
      region.withdraw_whole(index);
    }
    const bool unmapped = os::unmap(region.chunk_start(index), kChunkSize);
    const LockGuard guard(lock);
    region.put_back_whole(index, dirty, unmapped);
    purge_calls_++;
    if (unmapped) {
      const size_t bytes = size_t{count_bits(dirty)} << kSliceShift;
      purged_bytes_ += bytes;
      return bytes;
    }
  }
  return purge_chunk(region, index);
}

// Purges the chunk of a region that has been dirty for longest. `any`: one was old enough.
size_t Shard::purge_oldest(Region& region, uint64_t now, uint32_t age_ms, bool whole_only,
                           bool& any) {
  uint32_t index = kNoChunk;
  bool unmap = false;
  {
    const LockGuard guard(lock);
    index = region.find_purgeable(now, age_ms, whole_only);
    any = index != kNoChunk;
    unmap = any && region.can_unmap(index);
  }
  if (!any) return 0;
  return unmap ? unmap_chunk(region, index) : purge_chunk(region, index);
}

// Ends even if other threads keep making chunks dirty: in each region it purges at most as many
// chunks as slices are dirty at the start.
size_t Shard::purge_regions(uint32_t age_ms, size_t keep_slices, bool whole_only,
                            bool (*is_over)()) {
  size_t purged = 0;
  const uint64_t now = coarse_now_ms();
  for (Region* region = nullptr; (region = region_after(region)) != nullptr;) {
    size_t most = 0;
    {
      const LockGuard guard(lock);
      if (is_old(now, now_ms_, 0)) now_ms_ = now;
      most = region->dirty_slices();
    }
    for (bool any = true; any && most > 0; most--) {
      {
        const LockGuard guard(lock);
        if (dirty_slices() <= max_of(keep_slices, keeping_.kept())) return purged;
      }
      if (is_over != nullptr && is_over()) return purged;
      purged += purge_oldest(*region, now, age_ms, whole_only, any);
    }
  }
  return purged;
}

size_t Shard::purge_until(uint32_t age_ms, size_t keep_slices, bool whole_only, bool (*is_over)()) {
  const size_t bytes = purge_regions(age_ms, keep_slices, whole_only, is_over);
  if (bytes > 0) record_event(EventKind::purge, node_->number(), node_->number(), bytes);
  return bytes;
}

size_t Shard::purge(uint32_t age_ms, size_t keep_bytes, bool (*is_over)()) {
  const uint64_t now = coarse_now_ms();
  for (Region* region = nullptr; (region = region_after(region)) != nullptr;) {
    const LockGuard guard(lock);
    region->look_at_unused(now, age_ms);
  }
  return purge_until(age_ms, keep_bytes >> kSliceShift, false, is_over);
}

// Unmaps free chunks that were never used or whose pages were dropped: this frees address space.
void Shard::unmap_clean() {
  for (Region* region = nullptr; (region = region_after(region)) != nullptr;) {
    while (true) {
      uint32_t index = kNoChunk;
      {
        const LockGuard guard(lock);
        index = region->find_clean_whole();
      }
      if (index == kNoChunk) break;
      unmap_chunk(*region, index);
      const LockGuard guard(lock);
      if (region->is_mapped(index)) break;  // refused, or another thread took it
    }
  }
}

size_t Shard::trim(size_t keep_bytes) {
  for (Region* region = nullptr; (region = region_after(region)) != nullptr;) {
    const LockGuard guard(lock);
    region->retry_stuck();
  }
  const size_t purged = purge(0, keep_bytes);
  if (keep_bytes == 0) unmap_clean();
  return purged;
}

void Shard::restore_withdrawn() {
  for (Region* region = regions_; region != nullptr; region = region->next) {
    region->restore_withdrawn();
  }
}

}  // namespace near

// malloc and free: the straight-line fast paths, and the names of their slow paths.
//
//   malloc   take the class from a byte table; pop the bin if the link of its first block is
//            intact. No counter, no atomic operation, no call.
//   free     find the descriptor by arithmetic; if this thread's heap owns the span and a block
//            starts at the address, push it on the list that the descriptor points to (the bin
//            while the span is hot, else the span's own list) and count down.
//
// Every test that fails leads to a slow path, which determines the reason.
// Instruction budget: ci/fast_path_budget.toml. Measured: docs/decisions/0002-fast-path.md and
// 0013-encoded-links.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "front/held.h"
#include "front/thread.h"
#include "heap/heap.h"
#include "span/address_map.h"

namespace near {

// Null with ENOMEM if memory is refused or `size` is beyond PTRDIFF_MAX.
NEAR_NOINLINE void* allocate_slow(size_t size);
// As allocate_slow, for a request that the profiler has counted, or need not count.
NEAR_NOINLINE void* allocate_uncounted(size_t size);
// Gives back everything possible and tries again. `alignment` applies to a large block.
NEAR_NOINLINE void* allocate_in_need(size_t size, size_t alignment);
// Gives back everything possible, except about `keep` bytes, and returns how many bytes it gave
// back. Called before out-of-memory is reported, and by a trim.
NEAR_NOINLINE size_t reclaim_everything(size_t keep = 0);
// Gives back the spans of this thread's heap that have no live block.
NEAR_NOINLINE void flush_own_heap();
// Tries to make room for a request that was refused. The constructor gives everything back, unless
// that cannot help: the request exceeds the system's limits or the sum of what can be given back
// and what the system grants now, or nothing was freed since the last vain try. No lock is held.
class Need {
 public:
  explicit Need(size_t bytes);
  bool has_hope() const { return has_hope_; }
  // Records that the request was refused again.
  void record_vain() const;

 private:
  uint64_t freed_ = 0;
  bool has_hope_ = false;
};

NEAR_NOINLINE void release_slow(void* pointer);
// Called if the pointer is in the first window, and its slice is not the first of a span of this
// thread's heap. The span may lie on another node, so this reads each of its fields only once.
NEAR_NOINLINE void release_other(void* pointer);
// The address is in the first slice of a span of this thread's heap: that of a block whose span's
// frees are not fast (heap/spare_blocks.h), or of none.
NEAR_NOINLINE void release_medium(void* pointer);
NEAR_NOINLINE void release_count(void* pointer);
// Called when the countdown of a span of this thread's heap reached zero.
NEAR_NOINLINE void reach_count(Span* span);

NEAR_INLINE void* allocate(size_t size) {
  if (likely(size <= kSmallMax)) {
    Heap* heap = current_heap;
    Block* block = heap->bins[heap->class_of_small[size]].pop();
    if (likely(block != nullptr)) {
      record_held(block);
      return block;
    }
  }
  return allocate_slow(size);
}

NEAR_INLINE void release(void* pointer) {
  const size_t place = offset_in_reservation(pointer);
  if (unlikely(place >= reserved_bytes)) return release_slow(pointer);
  Span* span = &reserved_spans[place >> kSliceShift];
  // relaxed: only this thread makes its own heap the owner, so a stale value names another heap
  if (unlikely(span->owner.load(kRelaxed) != current_heap)) return release_other(pointer);
  const auto offset =
      static_cast<uint16_t>(reinterpret_cast<uintptr_t>(pointer));  // spans begin at slices
  if (unlikely(offset * span->reciprocal >= span->reciprocal_again)) return release_medium(pointer);
  auto* block = static_cast<Block*>(pointer);
  FreeList* list = span->list;
  uintptr_t distance;
  if (unlikely(list->is_first(block, distance))) return release_slow(pointer);  // a double free
  if (unlikely(!record_freed(span, block))) return release_slow(pointer);
  list->push(block, distance);
  if (unlikely(span->frees.tick())) release_count(pointer);
}

// Returns a block at a multiple of `alignment`, a power of two. ENOMEM as above.
void* allocate_aligned(size_t alignment, size_t size);

// Returns a zeroed block; count * size may overflow (ENOMEM).
void* allocate_zeroed(size_t count, size_t size);

void* reallocate(void* pointer, size_t size);

// Returns the bytes usable at `pointer`; 0 if it is null, no block, or a block that is known to be
// freed: a large one, the one that its span got back last, a spare one, and in the check build
// every one. For a block of another allocator it asks that allocator.
size_t usable_size(const void* pointer);

// Resizes a block in place, to `most` bytes if there is room, else to `least` bytes. Returns the
// bytes usable afterwards: fewer than `least` if there is no room. 0 < least <= most. A block of a
// class keeps its size.
size_t resize_in_place(void* pointer, size_t least, size_t most);

// The bytes of the whole block for a request at a multiple of `alignment` (a power of two) from
// this thread's heap now; a request for so many bytes gets the same. 0 if `size` is too large for
// any object. Gives the thread a heap: the size depends on the heap's class table.
size_t whole_block(size_t size, size_t alignment);

// True if realloc keeps a block of `usable` bytes for `size` bytes: they fit, and they fill at
// least half of it, or the block is tiny.
NEAR_INLINE bool fits_well(size_t size, size_t usable) {
  return size <= usable && (size >= usable / 2 || usable <= 2 * kBlockAlign);
}

// free_sized: the check build compares `size` with the block.
NEAR_INLINE void release_sized(void* pointer, size_t size) {
  if constexpr (kCheckBuild) check_size(pointer, size, kBlockAlign, Resized::maybe);
  release(pointer);
}
// free_aligned_sized and sized delete, for blocks that realloc does not get.
NEAR_INLINE void release_sized(void* pointer, size_t size, size_t alignment) {
  if constexpr (kCheckBuild) check_size(pointer, size, alignment, Resized::never);
  release(pointer);
}

// The same for any size from the one that was asked for to whole_block() of it.
NEAR_INLINE void release_within(void* pointer, size_t size, size_t alignment) {
  if constexpr (kCheckBuild) check_size_within(pointer, size, alignment);
  release(pointer);
}

}  // namespace near

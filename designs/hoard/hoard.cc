#include "designs/hoard/hoard.h"

#include <cstring>

#include "base/compiler.h"
#include "designs/hoard/heap.h"
#include "designs/hoard/superblocks.h"
#include "designs/shared/life.h"
#include "designs/shared/machine.h"
#include "designs/shared/mapped_blocks.h"
#include "designs/shared/owner.h"
#include "front/invalid.h"

namespace near::design::hoard {
namespace {

// Blocks above half a superblock. [Berger00 §4]
constinit design::MappedBlocks large;

// The heap of the calling thread; null before its first malloc.
__thread Heap* my_heap NEAR_TLS_INITIAL_EXEC = nullptr;

NEAR_COLD bool find_heap() {
  if (!design::start()) return false;
  my_heap = &heap_of_next_thread();
  return true;
}

// Requires: the thread has a heap, and the size is small.
void* take(size_t size) {
  const LockGuard guard(my_heap->lock());
  return my_heap->take(size_classes.of(size));
}

Mutex& lock_of(Heap* heap) { return heap->lock(); }

Freed put(void* block) {
  Superblock* superblock = superblocks.of(block);
  if (superblock == nullptr) return Freed::no_block;
  Heap* owner = design::lock_owner(superblock->owner, lock_of);
  const Freed freed = owner->put(superblock, block);
  owner->lock().unlock();
  return freed;
}

}  // namespace

bool Hoard::start() {
  apply_switches();
  size_classes.make();
  const unsigned count = settings.heaps != 0 ? settings.heaps : 2 * design::processors();
  return superblocks.start() && make_heaps(count);
}

void* Hoard::allocate(size_t size) {
  if (unlikely(my_heap == nullptr) && !find_heap()) return nullptr;
  return likely(size <= size_classes.largest()) ? take(size) : large.take(size, 1);
}

void* Hoard::allocate_aligned(size_t alignment, size_t size) {
  if (unlikely(my_heap == nullptr) && !find_heap()) return nullptr;
  const size_t largest = size_classes.largest();
  const size_t bytes = max_of(size, alignment);
  if (bytes > largest) return large.take(size, alignment);
  // Superblocks are aligned to their size, so blocks of a multiple of the alignment are aligned.
  if (size_classes.size(size_classes.of(bytes)) % alignment == 0) return take(bytes);
  if (size + alignment > largest) return large.take(size, alignment);
  void* block = take(size + alignment);
  if (block == nullptr) return nullptr;
  const uintptr_t inner = align_up(reinterpret_cast<uintptr_t>(block), alignment);
  // relaxed: the thread that frees the block received it from the caller
  superblocks.of(block)->has_inner_blocks.store(true, kRelaxed);
  return reinterpret_cast<void*>(inner);
}

void Hoard::deallocate(void* block) {
  if (unlikely(!superblocks.contains(block))) {
    if (!large.put(block)) release_foreign(block);
    return;
  }
  const Freed freed = put(block);
  if (unlikely(freed == Freed::twice)) report_invalid(block, "it was freed before");
  if (unlikely(freed == Freed::no_block)) report_invalid(block, "it is not a block");
}

void* Hoard::allocate_zeroed(size_t size) {
  void* block = allocate(size);
  const bool is_small = block != nullptr && size <= size_classes.largest();
  return is_small ? memset(block, 0, size) : block;
}

size_t Hoard::usable_size(const void* block) {
  if (!superblocks.contains(block)) return large.usable(block);
  const Superblock* superblock = superblocks.of(block);
  if (superblock == nullptr) return 0;
  const char* start = superblock->block_around(block);
  return superblock->size - static_cast<size_t>(static_cast<const char*>(block) - start);
}

bool Hoard::trim() {
  bool any = false;
  for (Heap& heap : all_heaps()) {
    const LockGuard guard(heap.lock());
    any = heap.trim() || any;
  }
  return any;
}

design::Footprint Hoard::footprint() {
  const design::MappedBlocks::Totals mapped = large.totals();
  size_t small = 0;
  for (Heap& heap : all_heaps()) {
    const LockGuard guard(heap.lock());
    small += heap.totals().in_use;
  }
  const design::Arena& arena = superblocks.arena();
  return {.reserved = arena.size() + mapped.bytes,
          .committed = arena.committed() + mapped.bytes,
          .in_use = small + mapped.bytes,
          .large = mapped.bytes,
          .large_blocks = mapped.blocks};
}

size_t Hoard::counters(Counter* out) {
  Heap::Totals all;
  for (Heap& heap : all_heaps()) {
    const LockGuard guard(heap.lock());
    const Heap::Totals one = heap.totals();
    all.given += one.given;
    all.got += one.got;
    all.fresh += one.fresh;
    all.recycled += one.recycled;
  }
  size_t n = 0;
  out[n++] = {"superblocks_taken", all.fresh};
  out[n++] = {"superblocks_to_global_heap", all.given};
  out[n++] = {"superblocks_from_global_heap", all.got};
  out[n++] = {"superblocks_recycled", all.recycled};
  out[n++] = {"large_blocks", large.totals().blocks};
  out[n++] = {"heaps", all_heaps().size() - 1};
  return n;
}

void Hoard::for_each_lock(void (*visit)(Mutex&)) {
  // A thread that waits for the global heap's lock may hold another heap's.
  for (Heap& heap : all_heaps().subspan(1)) visit(heap.lock());
  visit(all_heaps().front().lock());
  visit(large.lock());
}

}  // namespace near::design::hoard

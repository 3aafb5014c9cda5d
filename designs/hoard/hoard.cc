#include "designs/hoard/hoard.h"

#include <cstring>

#include "base/compiler.h"
#include "designs/hoard/heaps.h"
#include "designs/hoard/superblocks.h"
#include "designs/shared/machine.h"
#include "designs/shared/mapped_blocks.h"

namespace near::design::hoard {
namespace {

// Blocks above half a superblock. [Berger00 §4]
constinit design::MappedBlocks large;

void* take(Heap& heap, size_t size) {
  const LockGuard guard(heap.lock());
  return heap.take(size_classes.of(size));
}

}  // namespace

bool Hoard::start() {
  apply_switches();
  size_classes.make();
  const unsigned count = settings.heaps != 0 ? settings.heaps : 2 * design::processors();
  return superblocks.start() && make_heaps(count);
}

void* Hoard::allocate(size_t size) {
  Heap* heap = heap_of_thread();
  if (unlikely(heap == nullptr)) return nullptr;
  return likely(size <= size_classes.largest()) ? take(*heap, size) : large.take(size, 1);
}

void* Hoard::allocate_aligned(size_t alignment, size_t size) {
  Heap* heap = heap_of_thread();
  if (heap == nullptr) return nullptr;
  const size_t largest = size_classes.largest();
  const size_t bytes = max_of(size, alignment);
  if (bytes > largest) return large.take(size, alignment);
  // Superblocks are aligned to their size, so blocks of a multiple of the alignment are aligned.
  if (size_classes.size(size_classes.of(bytes)) % alignment == 0) return take(*heap, bytes);
  if (size + alignment > largest) return large.take(size, alignment);
  void* block = take(*heap, size + alignment);
  return block != nullptr ? superblocks.of(block)->aligned_inside(block, alignment) : nullptr;
}

void Hoard::deallocate(void* block) {
  if (likely(superblocks.contains(block))) return report(block, put_block(block));
  if (!large.put(block)) release_foreign(block);
}

void* Hoard::allocate_zeroed(size_t size) {
  void* block = allocate(size);
  const bool is_small = block != nullptr && size <= size_classes.largest();
  return is_small ? memset(block, 0, size) : block;
}

size_t Hoard::usable_size(const void* block) {
  if (!superblocks.contains(block)) return large.usable(block);
  const Superblock* superblock = superblocks.of(block);
  return superblock != nullptr ? superblock->usable(block) : 0;
}

bool Hoard::trim() { return trim_heaps(); }

design::Footprint Hoard::footprint() {
  const design::MappedBlocks::Totals mapped = large.totals();
  const design::Arena& arena = superblocks.arena();
  return {.reserved = arena.size() + mapped.bytes,
          .committed = arena.committed() + mapped.bytes,
          .in_use = totals_of_heaps().in_use + mapped.bytes,
          .large = mapped.bytes,
          .large_blocks = mapped.blocks};
}

size_t Hoard::counters(Counter* out) {
  const Heap::Totals all = totals_of_heaps();
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
  visit(global_heap().lock());
  visit(large.lock());
}

}  // namespace near::design::hoard

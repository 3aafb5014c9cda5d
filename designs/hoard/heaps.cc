#include "designs/hoard/heaps.h"

#include <new>

#include "base/compiler.h"
#include "designs/hoard/superblocks.h"
#include "designs/shared/life.h"
#include "designs/shared/owner.h"

namespace near::design::hoard {
namespace {

constinit design::Arena room;
constinit Atomic<size_t> heap_count{0};  // with the global one; 0 until the start
constinit Atomic<unsigned> threads_seen{0};

__thread Heap* my_heap NEAR_TLS_INITIAL_EXEC = nullptr;

Heap* heap_at(size_t index) { return reinterpret_cast<Heap*>(room.start()) + index; }

NEAR_COLD Heap* find_heap() {
  if (!design::start()) return nullptr;
  const unsigned number = threads_seen.fetch_add(1, kRelaxed);  // relaxed: it is only a number
  return my_heap = heap_at(1 + number % (all_heaps().size() - 1));
}

Mutex& lock_of(Heap* heap) { return heap->lock(); }

}  // namespace

bool make_heaps(unsigned count) {
  constexpr size_t kStep = 64 * kKiB;
  const size_t bytes = align_up((count + 1) * sizeof(Heap), kStep);
  if (room.size() == 0 && !room.reserve(bytes, bytes, kStep, kStep)) return false;
  if (room.taken() == 0 && room.take(bytes) == nullptr) return false;
  for (size_t i = 0; i <= count; i++) {
    ::new (heap_at(i)) Heap(i == 0 ? design::kMiddleRank : design::kUpperRank);
  }
  heap_count.store(count + 1, kRelease);  // pairs: hoard-heaps
  return true;
}

std::span<Heap> all_heaps() {
  return {heap_at(0), heap_count.load(kAcquire)};  // pairs: hoard-heaps
}

Heap& global_heap() { return *heap_at(0); }

Heap* heap_of_thread() { return likely(my_heap != nullptr) ? my_heap : find_heap(); }

Freed put_block(void* block) {
  Superblock* superblock = superblocks.of(block);
  if (superblock == nullptr) return Freed::no_block;
  Heap* owner = design::lock_owner(superblock->owner, lock_of);
  const Freed freed = owner->put(superblock, block);
  owner->lock().unlock();
  return freed;
}

bool trim_heaps() {
  bool any = false;
  for (Heap& heap : all_heaps()) {
    const LockGuard guard(heap.lock());
    any = heap.trim() || any;
  }
  return any;
}

Heap::Totals totals_of_heaps() {
  Heap::Totals all;
  for (Heap& heap : all_heaps()) {
    const LockGuard guard(heap.lock());
    all.add(heap.totals());
  }
  return all;
}

}  // namespace near::design::hoard

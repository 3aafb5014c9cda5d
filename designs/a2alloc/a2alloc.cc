#include "designs/a2alloc/a2alloc.h"

#include <span>

#include "base/compiler.h"
#include "designs/a2alloc/free_refs.h"
#include "designs/a2alloc/heap.h"
#include "designs/a2alloc/large_list.h"
#include "designs/a2alloc/shared_heap.h"
#include "designs/shared/life.h"
#include "designs/shared/machine.h"
#include "designs/shared/owner.h"
#include "front/invalid.h"
#include "platform/cpu.h"

namespace near::design::a2alloc {
namespace {

constexpr size_t kMostMemory = size_t{1} << 44;
constexpr size_t kLeastMemory = 16 * kMiB;

constinit Atomic<unsigned> heap_count{0};  // 0 until the start

// Asks for the processor in each call, as reported: a thread uses the heap of its processor.
Heap& this_heap(unsigned count) { return heaps[count == 1 ? 0 : current_cpu() % count]; }

std::span<Heap> all_heaps() { return {heaps, heap_count.load(kAcquire)}; }  // pairs: heap-count

// The pageref of a live small block; null if the block is large, or no block.
Pageref* pageref_of(const void* block) {
  char* page = page_of(block);
  if (!kVariant.per_processor) {
    for (unsigned size_class = 0; size_class < kClasses; size_class++) {
      if (Pageref* pageref = heaps[0].find(page, size_class)) return pageref;
    }
    return nullptr;
  }
  // Excludes addresses that the arena has not handed out, that leave no room for a header in front,
  // or that are not a multiple of the smallest block.
  const auto offset = static_cast<size_t>(static_cast<const char*>(block) - page);
  if (!arena.has_given(page) || offset < sizeof(Header) || offset % kSmallest != 0) return nullptr;
  const auto* header = settings.block_metadata ? static_cast<const Header*>(block) - 1
                                               : reinterpret_cast<const Header*>(page);
  // A pageref at the start of its page begins with the page's address, never the marker.
  // relaxed: a thread that has a live block sees its page's header
  if (header->heap.load(kRelaxed) == Header::kLarge) return nullptr;
  Pageref* pageref = settings.pageref_in_page ? reinterpret_cast<Pageref*>(page) : header->pageref;
  return arena.has_given(pageref) && pageref->page == page ? pageref : nullptr;
}

Mutex& lock_of(int32_t index) {
  return index == SharedHeap::kIndex ? shared_heap.lock() : heaps[index].lock();
}

Freed put_in(Heap& heap, Pageref* pageref, void* block) {
  if (settings.walk) pageref = heap.find(pageref->page, pageref->size_class);
  return pageref != nullptr ? heap.put(pageref, block) : Freed::twice;  // null: it is wholly free
}

// Gives the block back to the heap that its page belongs to, which may change in between.
Freed put(Pageref* pageref, void* block) {
  const int32_t index = design::lock_owner(pageref->heap, lock_of);
  const Freed freed = index == SharedHeap::kIndex ? shared_heap.put(pageref, block)
                                                  : put_in(heaps[index], pageref, block);
  lock_of(index).unlock();
  return freed;
}

}  // namespace

bool A2alloc::start() {
  apply_switches();
  if (!arena.reserve(kMostMemory, kLeastMemory, kPage, 2 * kMiB)) return false;
  const auto count = kVariant.per_processor ? min_of(design::processors(), kMaxHeaps) : 1;
  for (size_t i = 0; i < count; i++) heaps[i].start(static_cast<int32_t>(i));
  heap_count.store(static_cast<unsigned>(count), kRelease);  // pairs: heap-count
  return true;
}

void* A2alloc::allocate(size_t size) {
  const unsigned count = heap_count.load(kAcquire);  // pairs: heap-count
  if (unlikely(count == 0)) return design::start() ? allocate(size) : nullptr;
  if (size > kLargest - block_header_bytes()) return large_list.take(size, sizeof(Header));
  Heap& heap = this_heap(count);
  const LockGuard guard(heap.lock());
  return heap.take(class_of(max_of(size, 1) + block_header_bytes()), size);
}

void* A2alloc::allocate_aligned(size_t alignment, size_t size) {
  if (!design::start()) return nullptr;
  // Whole blocks lie at multiples of their class; a request of a full class size never gets a head
  // slot.
  const size_t bytes = max_of(size, alignment);
  if (block_header_bytes() == 0 && bytes <= kLargest) return allocate(size_of(class_of(bytes)));
  return large_list.take(size, alignment);
}

void A2alloc::deallocate(void* block) {
  if (unlikely(!arena.contains(block))) return release_foreign(block);
  Freed freed = Freed::yes;
  if (!kVariant.per_processor) {
    const LockGuard guard(heaps[0].lock());
    Pageref* pageref = pageref_of(block);
    if (pageref != nullptr) {
      freed = heaps[0].put(pageref, block);
    } else if (!large_list.put(block)) {
      freed = Freed::no_block;
    }
  } else if (Pageref* pageref = pageref_of(block)) {
    freed = put(pageref, block);
  } else if (!large_list.put(block)) {
    freed = Freed::no_block;
  }
  report(block, freed);
}

void* A2alloc::allocate_zeroed(size_t size) {
  if (size <= kLargest - block_header_bytes()) return Defaults::allocate_zeroed(size);
  return design::start() ? large_list.take_zeroed(size, sizeof(Header)) : nullptr;
}

size_t A2alloc::usable_size(const void* block) {
  if (!arena.contains(block)) return 0;
  if (!kVariant.per_processor) {
    const LockGuard guard(heaps[0].lock());
    const Pageref* pageref = pageref_of(block);
    return pageref != nullptr ? usable_in(*pageref, block) : large_list.usable(block);
  }
  const Pageref* pageref = pageref_of(block);
  return pageref != nullptr ? usable_in(*pageref, block) : large_list.usable(block);
}

bool A2alloc::trim() {
  const bool pages = free_refs.trim();
  return large_list.trim() || pages;
}

design::Footprint A2alloc::footprint() {
  const design::PageRuns::Totals large = large_list.totals();
  size_t small = 0;
  for (Heap& heap : all_heaps()) {
    const LockGuard guard(heap.lock());
    small += heap.totals().in_use;
  }
  {
    const LockGuard guard(shared_heap.lock());
    small += shared_heap.in_use();
  }
  return {.reserved = arena.size(),
          .committed = arena.committed(),
          .in_use = small + large.in_use,
          .large = large.in_use,
          .large_blocks = large.blocks};
}

size_t A2alloc::counters(Counter* out) {
  Heap::Totals heap_totals{};
  for (Heap& heap : all_heaps()) {
    const LockGuard guard(heap.lock());
    heap_totals.walked += heap.totals().walked;
    heap_totals.given += heap.totals().given;
    heap_totals.got += heap.totals().got;
  }
  const FreeRefs::Totals pages = free_refs.totals();
  size_t n = 0;
  out[n++] = {"bytes_taken", arena.taken()};
  out[n++] = {"pages_taken", pages.fresh};
  out[n++] = {"pages_reused", pages.reused};
  out[n++] = {"pagerefs_walked", heap_totals.walked};
  out[n++] = {"pages_to_shared_heap", heap_totals.given};
  out[n++] = {"pages_from_shared_heap", heap_totals.got};
  out[n++] = {"runs_walked", large_list.totals().walked};
  return n;
}

void A2alloc::for_each_lock(void (*visit)(Mutex&)) {
  for (Heap& heap : all_heaps()) visit(heap.lock());
  visit(shared_heap.lock());
  visit(free_refs.lock());
  visit(large_list.lock());
}

}  // namespace near::design::a2alloc

#include "designs/nalloc/nalloc.h"

#include "base/compiler.h"
#include "designs/nalloc/heaps.h"
#include "designs/shared/life.h"
#include "designs/shared/page_runs.h"
#include "designs/shared/ranks.h"
#include "front/invalid.h"

namespace near::design::nalloc {

namespace {

constexpr size_t kMostRuns = size_t{1} << 44;
constexpr size_t kLeastRuns = 16 * kMiB;

// Large and highly aligned blocks. Only these, the start and a trim take a lock.
constinit design::Arena run_arena;
constinit design::PageRuns runs{run_arena};

// A trim holds all parked heaps: a fork in between would lose them.
constinit Mutex trim_lock{design::kMiddleRank};

void free_to_arena(void* block) {
  if (unlikely(Coalescing::is_no_live_block(block))) return free_twice(block);
  Coalescing* host = Coalescing::host_of(block);
  if (host == &current->coalescing()) return host->put(block);
  host->push(block);
}

Kind kind_of(const void* block) { return *reinterpret_cast<const Kind*>(page_of(block)); }

}  // namespace

void* take_without_heap(unsigned size_class) {
  const design::Stay stay;
  return stay ? current->take(size_class) : nullptr;
}

void* allocate_beyond_slabs(size_t size) {
  if (current == &no_heap) {
    const design::Stay stay;
    return stay ? Nalloc::allocate(size) : nullptr;
  }
  // "It might be reasonable to use the space-efficient __nalloc in order to satisfy large
  // allocations." [Podolsky13]
  if (size <= Coalescing::kMost) return current->coalescing().take(size, current->fresh());
  return runs.take(size, 1);
}

void free_beyond_slabs(void* block) {
  if (pages.contains(block)) {
    if (kind_of(block) == Kind::coalescing) return free_to_arena(block);
    report_invalid(block, "it is not a block");
  } else if (!run_arena.contains(block)) {
    release_foreign(block);
  } else if (!runs.put(block)) {
    report_invalid(block, "it is not a block");
  }
}

bool Nalloc::start() {
  apply_switches();
  return (pages.reserved() > 0 || pages.start()) &&
         run_arena.reserve(kMostRuns, kLeastRuns, kPage, 2 * kMiB);
}

bool Nalloc::thread_enter() {
  Heap* heap = heaps.take();
  if (heap == nullptr) return false;
  current = heap;
  return true;
}

void Nalloc::thread_exit() {
  Heap* heap = current;
  current = &no_heap;
  heaps.park(heap);
}

void* Nalloc::allocate_aligned(size_t alignment, size_t size) {
  if (!design::start()) return nullptr;
  // Blocks begin at 64 or 128, so those of a multiple of an alignment up to 64 are aligned to it.
  const size_t bytes = align_up(max_of(size, alignment), alignment);
  if (kVariant.slabs && alignment <= sizeof(Slab) && bytes <= kLargest) return allocate(bytes);
  return runs.take(size, alignment);
}

void* Nalloc::allocate_zeroed(size_t size) {
  if (size <= Coalescing::kMost) return Defaults::allocate_zeroed(size);
  return design::start() ? runs.take_zeroed(size, 1) : nullptr;
}

size_t Nalloc::usable_size(const void* block) {
  if (!pages.contains(block)) return run_arena.contains(block) ? runs.usable(block) : 0;
  switch (kind_of(block)) {
    case Kind::slab:
      return reinterpret_cast<Slab*>(page_of(block))->size;
    case Kind::coalescing:
      return Coalescing::is_no_live_block(block) ? 0 : Coalescing::usable(block);
    default:
      return 0;
  }
}

bool Nalloc::trim() {
  const LockGuard guard(trim_lock);
  if (current != &no_heap) current->collect();
  heaps.collect_parked();
  const bool any = pages.trim();
  return runs.trim() || any;
}

design::Footprint Nalloc::footprint() {
  const design::PageRuns::Totals large = runs.totals();
  size_t in_use = large.in_use + bytes_in_slabs.load(kRelaxed);  // relaxed: a statistic
  heaps.for_each([&](Heap& heap) { in_use += heap.coalescing().in_use(); });
  return {.reserved = pages.reserved() + run_arena.size(),
          .committed = pages.committed() + run_arena.committed(),
          .in_use = in_use,
          .large = large.in_use,
          .large_blocks = large.blocks};
}

size_t Nalloc::counters(Counter* out) {
  constexpr const char* kNames[] = {"slabs_taken",    "popalls",        "blocks_moved",
                                    "slabs_given_up", "slabs_regained", "slabs_stolen",
                                    "slabs_cleaned",  "arena_popalls"};
  size_t n = 0;
  for (const char* name : kNames) out[n++] = {name, 0};
  size_t all = 0;
  heaps.for_each([&](Heap& heap) {
    const Counts& counts = heap.counts();
    const Atomic<uint64_t>* of_heap[] = {&counts.slabs,    &counts.popalls,  &counts.moved,
                                         &counts.given_up, &counts.regained, &counts.stolen,
                                         &counts.cleaned};
    // relaxed: statistics
    for (size_t i = 0; i + 1 < n; i++) out[i].value += of_heap[i]->load(kRelaxed);
    out[n - 1].value += heap.coalescing().popalls();
    all++;
  });
  out[n++] = {"pages_taken", pages.taken()};
  out[n++] = {"pages_clean", pages.clean()};
  out[n++] = {"pages_given_back", pages.purged()};
  out[n++] = {"page_batches", pages.batches()};
  out[n++] = {"pages_populated", pages.populated()};
  out[n++] = {"page_divisor", settings.divisor};
  out[n++] = {"class_table_bytes", settings.class_table ? sizeof(class_table) : 0};
  out[n++] = {"heaps", all};
  out[n++] = {"runs_walked", runs.totals().walked};
  return n;
}

// Small blocks need no lock. A thread that a fork leaves behind takes its heap with it, in an
// unknown state. Nothing else is lost, because all shared state changes by one exchange.
void Nalloc::for_each_lock(void (*visit)(Mutex&)) {
  visit(trim_lock);
  visit(runs.lock());
}

}  // namespace near::design::nalloc

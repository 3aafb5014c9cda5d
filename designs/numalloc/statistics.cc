// The design's report: footprint and counters.
#include "designs/numalloc/binding/binding.h"
#include "designs/numalloc/node_heap.h"
#include "designs/numalloc/numalloc.h"

namespace near::design::numalloc {
namespace {

constinit Atomic<uint64_t> threads_moved{0};

// Objects of each class that threads hold, and those that threads cut from their own pages.
struct WithThreads {
  uint64_t free[kClasses] = {};
  uint64_t carved[kClasses] = {};
};

void add_heaps(NodeHeap& node, WithThreads& sum) {
  node.heaps.for_each([&](const ThreadHeap& heap) {
    for (unsigned c = 1; c < kClasses; c++) {
      sum.free[c] += heap.lists[c].items();
      if (heap.pages != nullptr) {
        sum.carved[c] += heap.pages->carved[c].load(kRelaxed);  // relaxed: a statistic
      }
    }
  });
}

struct Sums {
  uint64_t bags = 0, carved = 0, fetches = 0, donations = 0, moved = 0, came_home = 0, lent = 0;
  uint64_t private_pages = 0, huge_pages = 0;
  BigHeap::Statistics big;
};

Sums sums() {
  Sums all;
  for (unsigned n = 0; n < regions.count; n++) {
    NodeHeap& node = *node_heaps[n];
    for (const SmallHeap& small : node.small) {
      const SmallHeap::Statistics& one = small.statistics();
      all.bags += one.bags.get();
      all.carved += one.carved.get();
      all.fetches += one.fetches.get();
      all.donations += one.donations.get();
      all.moved += one.moved.get();
      all.came_home += one.came_home.get();
      all.lent += one.lent.get();
    }
    const BigHeap::Statistics big = node.big.statistics();
    all.big.allocated += big.allocated;
    all.big.freed_remote += big.freed_remote;
    all.big.split += big.split;
    all.big.coalesced += big.coalesced;
    const size_t committed = node.small_half.committed();
    if (settings.huge_pages && committed > 0) all.huge_pages += committed / Half::kStep - 1;
    const LockGuard guard(node.small_lock);
    all.private_pages += node.private_pages;
  }
  return all;
}

}  // namespace

void count_move() { threads_moved.fetch_add(1, kRelaxed); }  // relaxed: a statistic

Footprint Numalloc::footprint() {
  Footprint now;
  now.reserved = reserved_bytes();
  WithThreads with_threads;
  uint64_t live[kClasses] = {};
  for (unsigned n = 0; n < regions.count; n++) {
    NodeHeap& node = *node_heaps[n];
    for (unsigned c = 1; c < kClasses; c++) {
      live[c] += node.small[c].statistics().carved.get() - node.small[c].free_objects();
    }
    add_heaps(node, with_threads);
    const BigHeap::Statistics big = node.big.statistics();
    now.large += big.live_bytes;
    now.large_blocks += big.live;
    now.committed += node.small_half.committed() + node.big.committed() + node.metadata.committed();
  }
  for (unsigned c = 1; c < kClasses; c++) {
    // The numbers are read one after the other while threads move objects: `all` may be too small.
    const uint64_t all = live[c] + with_threads.carved[c];
    now.in_use += (all > with_threads.free[c] ? all - with_threads.free[c] : 0) * kClassSizes[c];
  }
  now.in_use = min_of(now.in_use, now.committed);
  now.in_use += now.large;
  now.committed = max_of(now.committed, now.in_use);
  return now;
}

size_t Numalloc::counters(Counter* out) {
  const Sums all = sums();
  const HeapCounts heaps = heap_counts();
  const binding::Counts bound = binding::counts();
  const Counter list[] = {
      {"bags", all.bags},
      {"carved objects", all.carved},
      {"fetches", all.fetches},
      {"donations", all.donations},
      {"moved objects", all.moved},
      {"remote moves", all.came_home},
      {"borrowed objects", all.lent},
      {"big objects", all.big.allocated},
      {"big remote moves", all.big.freed_remote},
      {"big splits", all.big.split},
      {"big coalesced", all.big.coalesced},
      {"huge pages advised", all.huge_pages},
      {"private huge pages", all.private_pages},
      {"heaps made", heaps.made},
      {"heaps reused", heaps.reused},
      {"threads that moved", threads_moved.load(kRelaxed)},  // relaxed: a statistic
      {"threads bound", bound.bound},
      {"threads left alone", bound.left_alone},
      {"bindings refused", bound.refused + refused_bindings()},
  };
  static_assert(sizeof list / sizeof *list <= kMaxCounters);
  size_t count = 0;
  for (const Counter& one : list) out[count++] = one;
  return count;
}

}  // namespace near::design::numalloc

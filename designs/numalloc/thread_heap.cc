#include "designs/numalloc/thread_heap.h"

#include <new>

#include "designs/numalloc/node_heap.h"
#include "designs/numalloc/settings.h"
#include "designs/shared/machine.h"

namespace near::design::numalloc {
namespace {

constinit Atomic<uint64_t> heaps_made{0};
constinit Atomic<uint64_t> heaps_reused{0};

void adopt_lists(ThreadHeap& heap) {
  if (!heap.links.is_orphan) return;
  for (ThreadList& list : heap.lists) list.repair();
  // The thread may have stopped while it opened a bag.
  if (heap.pages != nullptr) {
    heap.pages->next = heap.pages->end = nullptr;
    for (Bag& bag : heap.pages->bags) bag = Bag();
  }
  heap.links.is_orphan = false;
}

ThreadHeap* make_heap(NodeHeap& node) {
  void* memory = node.metadata.take(sizeof(ThreadHeap));
  if (memory == nullptr) return nullptr;
  PrivatePages* pages = nullptr;
  if (!settings.incremental) {
    pages = static_cast<PrivatePages*>(node.metadata.take(sizeof(PrivatePages)));
    if (pages == nullptr) return nullptr;
    new (pages) PrivatePages{};
  }
  auto* heap = new (memory) ThreadHeap;
  heap->small_start = regions.small_start(node.node);
  heap->small_size = regions.half_size();
  heap->bag_class = regions.bag_class[node.node];
  heap->node = &node;
  heap->pages = pages;
  for (unsigned c = 1; c < kClasses; c++) heap->lists[c].set_batch(settings.batch[c]);
  return heap;
}

ThreadHeap* acquire_at(NodeHeap& node) {
  bool is_new = false;
  ThreadHeap* heap = node.heaps.take([&] {
    is_new = true;
    return make_heap(node);
  });
  if (heap == nullptr) return nullptr;
  adopt_lists(*heap);
  (is_new ? heaps_made : heaps_reused).fetch_add(1, kRelaxed);  // relaxed: a statistic
  return heap;
}

}  // namespace

constinit ThreadHeap no_heap;
constinit __thread ThreadHeap* current_heap NEAR_TLS_INITIAL_EXEC = &no_heap;

ThreadHeap* acquire_heap(unsigned node) {
  for (unsigned i = 0; i < regions.count; i++) {
    if (ThreadHeap* heap = acquire_at(*node_heaps[topology().order[node][i]])) return heap;
  }
  return nullptr;
}

void give_back(ThreadHeap* heap) {
  NodeHeap& node = *heap->node;
  for (unsigned c = 1; c < kClasses; c++) {
    ThreadList& list = heap->lists[c];
    // There are at most two batches: the older one, then the rest.
    while (!list.empty()) {
      const Sublist oldest = list.take_oldest();
      node.small[c].donate(node, oldest);
    }
  }
  node.heaps.give(heap);
}

Sublist carve_private(ThreadHeap& heap, unsigned size_class) {
  PrivatePages& own = *heap.pages;
  Bag& bag = own.bags[size_class];
  if (bag.empty()) {
    const size_t bytes = bag_bytes(size_class);
    if (static_cast<size_t>(own.end - own.next) < bytes) {
      // Only larger objects of this thread lose what is left of the old page.
      auto* page = static_cast<char*>(heap.node->take_private_page());
      if (page == nullptr) return {};
      own.next = page;
      own.end = page + Half::kStep;
    }
    mark_bags(own.next, size_class);
    bag.open(own.next, size_class);
    own.next += bytes;
  }
  const Sublist list = bag.carve(size_class, settings.batch[size_class]);
  Atomic<uint64_t>& carved = own.carved[size_class];
  carved.store(carved.load(kRelaxed) + list.count, kRelaxed);  // relaxed: only its thread writes
  return list;
}

void adopt_heaps_after_fork() {
  for (unsigned n = 0; n < regions.count; n++) node_heaps[n]->heaps.adopt_others(current_heap);
}

HeapCounts heap_counts() {
  return {heaps_made.load(kRelaxed), heaps_reused.load(kRelaxed)};  // relaxed: statistics
}

}  // namespace near::design::numalloc

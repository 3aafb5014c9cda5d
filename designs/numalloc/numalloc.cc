#include "designs/numalloc/numalloc.h"

#include <cstring>

#include "designs/numalloc/binding/binding.h"
#include "designs/numalloc/node_heap.h"
#include "designs/shared/life.h"
#include "designs/shared/machine.h"
#include "front/invalid.h"

namespace near::design::numalloc {
namespace {

// The node that the calling thread belongs to: the one where it runs, which is where it is bound.
// On a given topology, the node that it was given.
unsigned home_node() {
  if (regions.count == 1) return 0;
  const int bound = topology().real ? binding::kNobody : binding::bound_node();
  return bound >= 0 ? static_cast<unsigned>(bound) : current_node();
}

// A thread that is not bound, or that binds itself, may be on another node now; then it changes its
// heap.
void follow_thread() {
  if (regions.count == 1) return;
  const unsigned node = home_node();
  if (node == current_heap->node->node) return;
  ThreadHeap* heap = acquire_heap(node);
  if (heap == nullptr) return;
  // Neither the new node nor any that is nearer than the old one has memory for a heap.
  if (heap->node == current_heap->node) return give_back(heap);
  give_back(current_heap);
  current_heap = heap;
  count_move();
}

// An object of another node, if the own one has no memory. It does not enter the thread's list.
void* borrow(const ThreadHeap& heap, unsigned size_class) {
  for (unsigned i = 1; i < regions.count; i++) {
    NodeHeap& node = *node_heaps[topology().order[heap.node->node][i]];
    if (Object* object = node.small[size_class].lend(node, size_class)) return object;
  }
  return nullptr;
}

// Searches, after the thread's own list, the node's, then takes never-used memory. [Yang23 §3.3]
NEAR_NOINLINE void* fetch(unsigned size_class) {
  follow_thread();
  ThreadHeap& heap = *current_heap;
  NodeHeap& node = *heap.node;
  ThreadList& list = heap.lists[size_class];
  // The heap of a thread that a fork left behind contains objects.
  if (Object* object = list.pop()) return object;
  Sublist objects = node.small[size_class].fetch(node, size_class, heap.pages == nullptr);
  if (objects.count == 0 && heap.pages != nullptr) objects = carve_private(heap, size_class);
  if (objects.count == 0) return borrow(heap, size_class);
  list.fill(objects);
  return list.pop();
}

}  // namespace

// --- life ----------------------------------------------------------------------------------------

bool Numalloc::start() {
  apply_switches();
  if (regions.count == 0 && !reserve_regions(topology().count)) return false;
  return make_node_heaps();
}

void Numalloc::configure() {
  const Switch& chosen = switches()[0];
  binding::start(static_cast<binding::Policy>(chosen.value), chosen.text);
}

bool Numalloc::thread_enter() {
  ThreadHeap* heap = acquire_heap(home_node());
  if (heap == nullptr) return false;
  current_heap = heap;
  return true;
}

void Numalloc::thread_exit() {
  ThreadHeap* heap = current_heap;
  current_heap = &no_heap;
  give_back(heap);
}

void Numalloc::lock_for_fork() {
  for (unsigned n = 0; n < regions.count; n++) node_heaps[n]->lock_for_fork();
  binding::lock_for_fork();
}

void Numalloc::unlock_after_fork(bool child) {
  if (child) adopt_heaps_after_fork();
  binding::unlock_after_fork(child);
  for (unsigned n = regions.count; n > 0; n--) node_heaps[n - 1]->unlock_for_fork();
}

// --- allocation ----------------------------------------------------------------------------------

NEAR_NOINLINE void* Numalloc::allocate_slow(size_t size) {
  if (unlikely(current_heap == &no_heap)) {
    const Stay stay;
    return stay ? allocate(size) : nullptr;
  }
  if (likely(size <= kSmallLimit)) return fetch(class_of(size));
  bool zeroed = false;
  return allocate_big(size, kBagSize, zeroed);
}

// Allocates on the thread's node, or on the nearest that has memory. [Yang23 §3.3]
void* Numalloc::allocate_big(size_t size, size_t alignment, bool& zeroed) {
  follow_thread();
  const unsigned own = current_heap->node->node;
  for (unsigned i = 0; i < regions.count; i++) {
    NodeHeap& node = *node_heaps[topology().order[own][i]];
    if (void* block = node.big.allocate(size, alignment, zeroed)) return block;
  }
  return nullptr;
}

void* Numalloc::allocate_aligned(size_t alignment, size_t size) {
  if (unlikely(current_heap == &no_heap)) {
    const Stay stay;
    return stay ? allocate_aligned(alignment, size) : nullptr;
  }
  if (alignment <= kBagSize && size <= kSmallLimit) {
    unsigned size_class = class_of(max_of(size, alignment));
    while (kClassSizes[size_class] % alignment != 0) size_class++;
    return allocate(kClassSizes[size_class]);
  }
  bool zeroed = false;
  return allocate_big(max_of(size, 1), max_of(alignment, kBagSize), zeroed);
}

void* Numalloc::allocate_zeroed(size_t size) {
  if (size <= kSmallLimit) {
    void* block = allocate(size);
    return block != nullptr ? memset(block, 0, size) : nullptr;
  }
  if (unlikely(current_heap == &no_heap)) {
    const Stay stay;
    return stay ? allocate_zeroed(size) : nullptr;
  }
  bool zeroed = false;
  void* block = allocate_big(size, kBagSize, zeroed);
  return block == nullptr || zeroed ? block : memset(block, 0, size);
}

bool Numalloc::resize(void* block, size_t size) {
  if (size <= kSmallLimit || regions.half_of(block) % 2 == 0) return false;
  return node_heaps[regions.node_of(block)]->big.resize(block, size);
}

size_t Numalloc::usable_size(const void* pointer) {
  if (!regions.contains(pointer)) return 0;
  if (regions.half_of(pointer) % 2 != 0) {
    return node_heaps[regions.node_of(pointer)]->big.usable_size(pointer);
  }
  return kClassSizes[regions.class_of_bag(pointer)];
}

// --- deallocation --------------------------------------------------------------------------------

NEAR_NOINLINE void Numalloc::pushed_slow(ThreadHeap& heap, size_t size_class, Object* object,
                                         ThreadList::Pushed pushed) {
  if (pushed == ThreadList::Pushed::freed_twice) {
    return report_invalid(object, "it is free already");
  }
  const Sublist oldest = heap.lists[size_class].take_oldest();
  heap.node->small[size_class].donate(*heap.node, oldest);
}

void Numalloc::deallocate_big(void* block) {
  NodeHeap& node = *node_heaps[regions.node_of(block)];
  switch (node.big.release(block, &node != current_heap->node)) {
    case BigHeap::Freed::fine:
      return;
    case BigHeap::Freed::twice:
      return report_invalid(block, "it is free already");
    case BigHeap::Freed::no_object:
      return report_invalid(block, "no object starts there");
  }
}

// Origin-aware: an object of another node goes back there, big or small. [Yang23 §3.3]
NEAR_NOINLINE void Numalloc::deallocate_slow(void* block) {
  if (!regions.contains(block)) return release_foreign(block);
  if (regions.half_of(block) % 2 != 0) return deallocate_big(block);
  const unsigned size_class = regions.class_of_bag(block);
  if (size_class == 0) return report_invalid(block, "no object was ever there");
  if (!regions.starts_object(block, size_class))
    return report_invalid(block, "no object starts there");
  auto* object = static_cast<Object*>(block);
  if (unlikely(current_heap == &no_heap)) {
    const Stay stay(Errand::free);
    if (stay) return deallocate(block);
  } else if (!settings.origin_aware) {
    return push(*current_heap, size_class, object);
  }
  NodeHeap& node = *node_heaps[regions.node_of(block)];
  if (!node.small[size_class].come_home(node, object, settings.batch[size_class])) {
    report_invalid(block, "it is free already");
  }
}

}  // namespace near::design::numalloc

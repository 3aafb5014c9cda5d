#include "designs/numalloc/node_heap.h"

#include <new>

#include "platform/os.h"

namespace near::design::numalloc {

constinit NodeHeap* node_heaps[kMaxNodes] = {};

bool make_node_heaps() {
  for (unsigned node = 0; node < regions.count; node++) {
    if (node_heaps[node] != nullptr) continue;
    const MetadataPlace place = metadata_of(node);
    const size_t own = align_up(sizeof(NodeHeap), 64 * kKiB);  // the largest system page
    if (!os::commit(reinterpret_cast<void*>(place.start), own)) return false;
    auto* heap = new (reinterpret_cast<void*>(place.start)) NodeHeap;
    heap->node = node;
    heap->metadata.set(place.start + own, place.size - own);
    heap->small_half.set(regions.small_start(node), regions.half_size());
    heap->big.set(regions.big_start(node), regions.half_size(), place.big_objects, &heap->metadata);
    node_heaps[node] = heap;
  }
  return true;
}

void* NodeHeap::take_bags(size_t bytes, unsigned size_class) {
  const LockGuard guard(small_lock);
  void* start = small_half.take(bytes, commit_bag_classes);
  if (start != nullptr) mark_bags(start, size_class);
  return start;
}

void* NodeHeap::take_private_page() {
  const LockGuard guard(small_lock);
  void* start = small_half.take(Half::kStep, commit_bag_classes);
  if (start != nullptr) private_pages++;
  return start;
}

void NodeHeap::lock_for_fork() {
  heaps.lock().lock_for_fork();
  for (SmallHeap& each : small) each.lock_for_fork();
  small_lock.lock_for_fork();
  big.lock_for_fork();
}

void NodeHeap::unlock_for_fork() {
  big.unlock_for_fork();
  small_lock.unlock_for_fork();
  for (SmallHeap& each : small) each.unlock_for_fork();
  heaps.lock().unlock_for_fork();
}

}  // namespace near::design::numalloc

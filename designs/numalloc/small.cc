#include "designs/numalloc/small.h"

#include "designs/numalloc/node_heap.h"
#include "designs/numalloc/settings.h"

namespace near::design::numalloc {

Sublist SmallHeap::carve(NodeHeap& node, unsigned size_class, uint32_t wanted) {
  if (bag_.empty()) {
    void* start = node.take_bags(bag_bytes(size_class), size_class);
    if (start == nullptr) return {};
    bag_.open(start, size_class);
    statistics_.bags.add(1);
  }
  const Sublist list = bag_.carve(size_class, wanted);
  statistics_.carved.add(list.count);
  return list;
}

Sublist SmallHeap::fetch(NodeHeap& node, unsigned size_class, bool may_carve) {
  const LockGuard guard(lock_);
  const Sublist list = ring_.take();
  if (list.count > 0) {
    statistics_.fetches.add(1);
    statistics_.moved.add(list.count);
    return list;
  }
  return may_carve ? carve(node, size_class, settings.batch[size_class]) : Sublist{};
}

void SmallHeap::donate(NodeHeap& node, const Sublist& list) {
  const LockGuard guard(lock_);
  ring_.put(list, node.metadata);
  statistics_.donations.add(1);
  statistics_.moved.add(list.count);
}

bool SmallHeap::come_home(NodeHeap& node, Object* object, uint32_t batch) {
  const LockGuard guard(lock_);
  if (!ring_.put_one(object, batch, node.metadata)) return false;
  statistics_.came_home.add(1);
  return true;
}

Object* SmallHeap::lend(NodeHeap& node, unsigned size_class) {
  const LockGuard guard(lock_);
  Object* object = ring_.take_one();
  if (object == nullptr) object = carve(node, size_class, 1).head;
  if (object != nullptr) statistics_.lent.add(1);
  return object;
}

}  // namespace near::design::numalloc

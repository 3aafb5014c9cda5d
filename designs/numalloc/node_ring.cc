#include "designs/numalloc/node_ring.h"

#include "designs/numalloc/metadata.h"

namespace near::design::numalloc {

// The old arrays are not reused: together they are no larger than the new one.
bool NodeRing::grow(Metadata& metadata) {
  const uint32_t slots = slots_ == 0 ? kFirstSlots : 2 * slots_;
  auto* array = static_cast<Sublist*>(metadata.take(slots * sizeof(Sublist)));
  if (array == nullptr) return false;
  for (uint32_t i = 0; i < filled_; i++) array[i] = at(i);
  array_ = array;
  slots_ = slots;
  first_ = 0;
  return true;
}

void NodeRing::put(const Sublist& list, Metadata& metadata) {
  count(list.count);
  if (filled_ == slots_ && !grow(metadata)) {
    (filled_ > 0 ? at(filled_ - 1) : open_).append(list);
    return;
  }
  at(filled_++) = list;
}

bool NodeRing::put_one(Object* object, uint32_t batch, Metadata& metadata) {
  if (open_.head == object) return false;
  open_.push(object);
  if (open_.count < batch) {
    count(1);
    return true;
  }
  const Sublist whole = open_;
  open_ = Sublist{};
  count(1 - static_cast<int64_t>(whole.count));
  put(whole, metadata);
  return true;
}

Sublist NodeRing::take() {
  Sublist taken = open_;
  if (filled_ > 0) {
    taken = at(0);
    at(0) = Sublist{};
    first_ = (first_ + 1) & (slots_ - 1);
    filled_--;
  } else {
    open_ = Sublist{};
  }
  count(-static_cast<int64_t>(taken.count));
  return taken;
}

Object* NodeRing::take_one() {
  Sublist& list = filled_ > 0 ? at(0) : open_;
  if (list.count <= 1) return take().head;
  count(-1);
  return list.pop();
}

}  // namespace near::design::numalloc

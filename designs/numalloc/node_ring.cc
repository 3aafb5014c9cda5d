#include "designs/numalloc/node_ring.h"

#include "designs/numalloc/metadata.h"

namespace near::design::numalloc {
namespace {

void append(Sublist& list, const Sublist& more) {
  if (list.count == 0) {
    list = more;
    return;
  }
  list.tail->next = more.head;
  list.tail = more.tail;
  list.count += more.count;
}

}  // namespace

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
    append(filled_ > 0 ? at(filled_ - 1) : open_, list);
    return;
  }
  at(filled_++) = list;
}

bool NodeRing::put_one(Object* object, uint32_t batch, Metadata& metadata) {
  if (open_.head == object) return false;
  object->next = open_.head;
  if (open_.head == nullptr) open_.tail = object;
  open_.head = object;
  open_.count++;
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
  Object* object = list.head;
  list.head = object->next;
  list.count--;
  count(-1);
  return object;
}

}  // namespace near::design::numalloc

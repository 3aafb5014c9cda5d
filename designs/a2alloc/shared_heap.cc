#include "designs/a2alloc/shared_heap.h"

#include "designs/a2alloc/free_refs.h"

namespace near::design::a2alloc {

constinit SharedHeap shared_heap;

void SharedHeap::add(Pageref* pageref) {
  pages_[pageref->size_class].push_front(pageref);
  in_use_ += pageref->used * size_of(pageref->size_class);
}

Pageref* SharedHeap::take(unsigned size_class) {
  Pageref* pageref = pages_[size_class].front();
  if (pageref == nullptr) return nullptr;
  pages_[size_class].remove(pageref);
  in_use_ -= pageref->used * size_of(size_class);
  return pageref;
}

Freed SharedHeap::put(Pageref* pageref, void* block) {
  const Freed freed = put_block(*pageref, block);
  if (freed != Freed::yes) return freed;
  in_use_ -= size_of(pageref->size_class);
  if (pageref->used == 0) {
    pages_[pageref->size_class].remove(pageref);
    free_refs.put(pageref);
  }
  return Freed::yes;
}

}  // namespace near::design::a2alloc

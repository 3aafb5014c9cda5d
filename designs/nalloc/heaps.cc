#include "designs/nalloc/heaps.h"

#include <new>

namespace near::design::nalloc {

static_assert(sizeof(Heap) <= kPage);

constinit Heaps heaps;

Heap* Heaps::take_parked() {
  const uint32_t index = parked_.pop(pages);
  return index != 0 ? reinterpret_cast<Heap*>(pages.at(index)) : nullptr;
}

Heap* Heaps::take() {
  Heap* heap = take_parked();
  return heap != nullptr ? heap : make();
}

Heap* Heaps::make() {
  FreshPages fresh;
  char* page = pages.take(fresh);
  if (page == nullptr) return nullptr;
  Heap* heap = ::new (page) Heap(fresh);
  heap->registered = made_.load(kRelaxed);  // relaxed: the exchange below checks it
  // pairs: heap-made
  while (!made_.compare_exchange_weak(heap->registered, heap, kAcqRel, kRelaxed)) {
  }
  return heap;
}

void Heaps::park(Heap* heap) {
  heap->collect();
  parked_.push(pages, pages.index_of(heap));
}

void Heaps::collect_parked() {
  Heap* taken = nullptr;
  while (Heap* heap = take_parked()) {
    heap->collect();
    heap->parked = taken;
    taken = heap;
  }
  while (taken != nullptr) {
    Heap* heap = taken;
    taken = heap->parked;
    parked_.push(pages, pages.index_of(heap));
  }
}

}  // namespace near::design::nalloc

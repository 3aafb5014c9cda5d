#include "designs/a2alloc/heap.h"

#include "designs/a2alloc/free_refs.h"
#include "designs/a2alloc/shared_heap.h"

namespace near::design::a2alloc {

constinit Heap heaps[kMaxHeaps];

namespace {

// Hoard's K: the bytes that a heap may always own beyond those in use. [Berger00 §3.2]
constexpr size_t kSlack = 4 * kPage;

size_t bytes_of(const Pageref& pageref) {
  return blocks_in_page(layout_of(pageref.size_class), pageref.size_class) *
         size_of(pageref.size_class);
}

size_t bytes_in_use(const Pageref& pageref) { return pageref.used * size_of(pageref.size_class); }

// At least f of the page is free, and not only its head slot.
bool is_too_empty(const Pageref& pageref) {
  return has_room(pageref) &&
         bytes_in_use(pageref) * 100 <= bytes_of(pageref) * (100 - settings.emptiness);
}

}  // namespace

List<Pageref>& Heap::list_of(const Pageref& pageref) {
  if (settings.walk || has_room(pageref)) return with_room_[pageref.size_class];
  return (pageref.head_is_free ? head_only_ : full_)[pageref.size_class];
}

void Heap::add(Pageref* pageref) {
  owned_ += bytes_of(*pageref);
  totals_.in_use += bytes_in_use(*pageref);
  list_of(*pageref).push_front(pageref);
}

void Heap::remove(Pageref* pageref, List<Pageref>& list) {
  list.remove(pageref);
  owned_ -= bytes_of(*pageref);
  totals_.in_use -= bytes_in_use(*pageref);
}

// A page with a whole free block, or with a head slot that is large enough; null if there is none.
Pageref* Heap::with_room_for(unsigned size_class, size_t size) {
  const bool head_will_do = fits_head(size_class, size);
  if (head_will_do && !head_only_[size_class].empty()) return head_only_[size_class].front();
  Pageref* pageref = with_room_[size_class].front();
  while (pageref != nullptr && !has_room(*pageref) && !(head_will_do && pageref->head_is_free)) {
    pageref = pageref->next;
    totals_.walked++;
  }
  return pageref;
}

Pageref* Heap::new_page(unsigned size_class) {
  if (settings.emptiness > 0) {
    const LockGuard guard(shared_heap.lock());
    if (Pageref* pageref = shared_heap.take(size_class)) {
      set_heap(*pageref, index_);
      totals_.got++;
      add(pageref);
      return pageref;
    }
  }
  Pageref* pageref = free_refs.take();
  if (pageref == nullptr) return nullptr;
  prepare(*pageref, size_class, index_);
  add(pageref);
  return pageref;
}

void* Heap::take(unsigned size_class, size_t size) {
  Pageref* pageref = with_room_for(size_class, size);
  if (pageref == nullptr) pageref = new_page(size_class);
  if (pageref == nullptr) return nullptr;
  List<Pageref>& before = list_of(*pageref);
  void* block = take_block(*pageref, size);
  totals_.in_use += size_of(size_class);
  List<Pageref>& after = list_of(*pageref);
  if (&before != &after) {
    before.remove(pageref);
    after.push_front(pageref);
  }
  return block;
}

Freed Heap::put(Pageref* pageref, void* block) {
  List<Pageref>& before = list_of(*pageref);
  const Freed freed = put_block(*pageref, block);
  if (freed != Freed::yes) return freed;
  totals_.in_use -= size_of(pageref->size_class);
  if (pageref->used == 0) {
    remove(pageref, before);
    free_refs.put(pageref);
  } else if (settings.emptiness > 0 && is_too_empty() && a2alloc::is_too_empty(*pageref)) {
    remove(pageref, before);
    const LockGuard guard(shared_heap.lock());
    set_heap(*pageref, SharedHeap::kIndex);
    shared_heap.add(pageref);
    totals_.given++;
  } else if (List<Pageref>& after = list_of(*pageref); &before != &after) {
    before.remove(pageref);
    after.push_front(pageref);
  }
  return Freed::yes;
}

// Hoard's invariant is broken: u < a - K and u < (1 - f) a.
bool Heap::is_too_empty() const {
  return totals_.in_use + kSlack < owned_ &&
         totals_.in_use * 100 < owned_ * (100 - settings.emptiness);
}

Pageref* Heap::walk(const List<Pageref>& list, const char* page) {
  Pageref* pageref = list.front();
  for (; pageref != nullptr && pageref->page != page; pageref = pageref->next) totals_.walked++;
  return pageref;
}

Pageref* Heap::find(const char* page, unsigned size_class) {
  for (const List<Pageref>* list : {&with_room_[size_class], &head_only_[size_class]}) {
    if (Pageref* pageref = walk(*list, page)) return pageref;
  }
  return walk(full_[size_class], page);
}

}  // namespace near::design::a2alloc

#include "designs/nalloc/heap.h"

#include <new>

#include "front/invalid.h"

namespace near::design::nalloc {

constinit Heap no_heap;
__thread Heap* current NEAR_TLS_INITIAL_EXEC = &no_heap;
constinit Atomic<size_t> bytes_in_slabs{0};

namespace {

size_t bytes_in(const Slab* slab) { return size_t{slab->capacity} * slab->size; }

Slab* make_slab(char* page, unsigned size_class, Heap* host) {
  auto* slab = ::new (page) Slab();
  slab->kind = Kind::slab;
  slab->host = host;
  slab->size_class = static_cast<uint16_t>(size_class);
  slab->size = static_cast<uint32_t>(size_of(size_class));
  slab->capacity = static_cast<uint16_t>((page + kPage - slab->first()) / slab->size);
  ::new (&slab->wayward()) WaywardStack<Block>();
  slab->make_whole();
  bytes_in_slabs.fetch_add(bytes_in(slab), kRelaxed);  // relaxed: a statistic
  return slab;
}

void make_clean(Slab* slab) {
  bytes_in_slabs.fetch_sub(bytes_in(slab), kRelaxed);  // relaxed: a statistic
  slab->kind = Kind::none;
  pages.put(page_of(slab));
}

}  // namespace

void Heap::add(Slab* slab) {
  stacks_[slab->size_class].push_front(slab);
  held_[slab->size_class]++;
}

void Heap::remove(Slab* slab) {
  stacks_[slab->size_class].remove(slab);
  held_[slab->size_class]--;
}

void* Heap::take_from_new(unsigned size_class) {
  if (this == &no_heap) return take_without_heap(size_class);
  char* page = pages.take(fresh_);
  if (page == nullptr) return nullptr;
  add(make_slab(page, size_class, this));
  count(counts_.slabs);
  return take(size_class);
}

// `block` was the last private one. No thread can free it before this returns.
void* Heap::exhausted(Slab* slab, void* block) {
  const uint32_t moved = slab->move_wayward();
  if (moved > 0) {
    count(counts_.popalls);
    count(counts_.moved, moved);
  } else {
    remove(slab);
    count(counts_.given_up);
  }
  return block;
}

// Called when the slab, given up before, has its first private block, or when it is whole.
void Heap::filed_anew(Slab* slab) {
  if (slab->free == 1) {
    add(slab);
    count(counts_.regained);
  } else if (held_[slab->size_class] > settings.keep) {
    clean(slab);
  }
}

void Heap::clean(Slab* slab) {
  remove(slab);
  count(counts_.cleaned);
  make_clean(slab);
}

void Heap::steal(Slab* slab) {
  if (!settings.steal || held_[slab->size_class] >= settings.keep) {
    count(counts_.cleaned);
    return make_clean(slab);
  }
  slab->host = this;
  slab->make_whole();
  add(slab);
  count(counts_.stolen);
}

void free_twice(void* block) { report_invalid(block, "it was freed before"); }

void push_wayward(Slab* slab, void* block) {
  // Read before the push: after it the slab may belong to another thread, and be of another class.
  const uint32_t capacity = slab->capacity;
  const auto pushed = slab->wayward().push(slab->names(), static_cast<Block*>(block));
  if (unlikely(pushed.repeated)) return free_twice(block);
  if (likely(pushed.size < capacity)) return;
  // All its blocks are wayward: no other thread has the slab.
  if (current != &no_heap) return current->steal(slab);
  make_clean(slab);
}

}  // namespace near::design::nalloc

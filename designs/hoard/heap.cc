#include "designs/hoard/heap.h"

#include <bit>

#include "designs/hoard/heaps.h"
#include "designs/hoard/superblocks.h"
#include "platform/os.h"

namespace near::design::hoard {

// --- lists ---------------------------------------------------------------------------------------

void Heap::file(Superblock* superblock) {
  const unsigned group = superblock->fullness();
  superblock->group = static_cast<uint8_t>(group);
  classes_[superblock->size_class].groups[group].push_front(superblock);
  if (group == 0) with_empty_ |= uint64_t{1} << superblock->size_class;
}

void Heap::unfile(Superblock* superblock) {
  List<Superblock>& list = classes_[superblock->size_class].groups[superblock->group];
  list.remove(superblock);
  if (superblock->group == 0 && list.empty()) {
    with_empty_ &= ~(uint64_t{1} << superblock->size_class);
  }
}

void Heap::add(Superblock* superblock) {
  // relaxed: a thread that reads an owner checks it again under that owner's lock
  superblock->owner.store(this, kRelaxed);
  classes_[superblock->size_class].used += superblock->used;
  classes_[superblock->size_class].held += superblock->capacity;
  file(superblock);
}

void Heap::remove(Superblock* superblock) {
  unfile(superblock);
  classes_[superblock->size_class].used -= superblock->used;
  classes_[superblock->size_class].held -= superblock->capacity;
}

// --- malloc --------------------------------------------------------------------------------------

// The fullest superblock of the class that has room; null if there is none.
Superblock* Heap::with_room(unsigned size_class) {
  const auto& groups = classes_[size_class].groups;
  for (unsigned group = kFullGroup; group-- > 0;) {
    if (Superblock* superblock = groups[group].front()) {
      if (superblock->purged) superblock->prepare(size_class);
      return superblock;
    }
  }
  return recycle(size_class);
}

// A wholly free superblock of another class, cut anew; null if there is none.
Superblock* Heap::recycle(unsigned size_class) {
  if (with_empty_ == 0) return nullptr;
  const auto other = static_cast<unsigned>(std::countr_zero(with_empty_));
  Superblock* superblock = classes_[other].groups[0].front();
  remove(superblock);
  superblock->prepare(size_class);
  add(superblock);
  totals_.recycled++;
  return superblock;
}

void* Heap::try_take(unsigned size_class) {
  Superblock* superblock = with_room(size_class);
  if (superblock == nullptr) return nullptr;
  void* block = superblock->pop();
  classes_[size_class].used++;
  if (superblock->fullness() != superblock->group) {
    unfile(superblock);
    file(superblock);
  }
  return block;
}

// Called with the global heap's lock: a superblock of it for another heap; null if there is none.
Superblock* Heap::release(unsigned size_class) {
  Superblock* superblock = with_room(size_class);
  if (superblock != nullptr) remove(superblock);
  return superblock;
}

// Gets a superblock from the global heap, or a fresh one.
bool Heap::acquire(unsigned size_class) {
  const LockGuard guard(global_heap().lock());
  Superblock* superblock = global_heap().release(size_class);
  if (superblock != nullptr) {
    totals_.got++;
  } else {
    superblock = superblocks.take_fresh();
    if (superblock == nullptr) return false;
    superblock->prepare(size_class);
    totals_.fresh++;
  }
  add(superblock);
  return true;
}

void* Heap::take(unsigned size_class) {
  if (void* block = try_take(size_class)) return block;
  return acquire(size_class) ? try_take(size_class) : nullptr;
}

// --- free ----------------------------------------------------------------------------------------

Freed Heap::put(Superblock* superblock, void* block) {
  const Freed freed = superblock->push(block);
  if (freed != Freed::yes) return freed;
  classes_[superblock->size_class].used--;
  // Also within a group it moves to the front: the next malloc finds it in the cache.
  unfile(superblock);
  file(superblock);
  if (this != &global_heap()) keep_invariant(superblock->size_class);
  return Freed::yes;
}

bool Heap::is_too_empty(unsigned size_class, size_t slack) const {
  const Class& one = classes_[size_class];
  const size_t capacity = settings.superblock() / size_classes.size(size_class);
  return one.used + slack * capacity < one.held &&
         one.used * kEighths < one.held * (kEighths - settings.empty_eighths);
}

// The superblock of the class that lies longest in the emptiest group. If the class is too empty,
// f of that superblock or more is free: not all can be fuller than their mean.
Superblock* Heap::emptiest(unsigned size_class) const {
  for (const List<Superblock>& group : classes_[size_class].groups) {
    if (!group.empty()) return group.back();
  }
  return nullptr;
}

void Heap::keep_invariant(unsigned size_class) {
  if (!is_too_empty(size_class, settings.slack)) return;
  Heap& global = global_heap();
  const LockGuard guard(global.lock());
  while (is_too_empty(size_class, settings.slack)) {
    Superblock* superblock = emptiest(size_class);
    remove(superblock);
    global.add(superblock);
    totals_.given++;
  }
}

// --- upkeep --------------------------------------------------------------------------------------

bool Heap::trim() {
  if (os::page_size() > settings.superblock()) return false;
  bool any = false;
  for (const Class& one : classes_) {
    for (Superblock* each = one.groups[0].front(); each != nullptr; each = each->next) {
      if (each->purged || !os::purge(each->start(), settings.superblock())) continue;
      each->free = nullptr;
      each->purged = true;
      any = true;
    }
  }
  return any;
}

Heap::Totals Heap::totals() const {
  Totals totals = totals_;
  for (unsigned i = 0; i < size_classes.count(); i++) {
    totals.in_use += classes_[i].used * size_classes.size(i);
  }
  return totals;
}

bool Heap::check(unsigned size_class) const {
  size_t used = 0;
  size_t held = 0;
  for (unsigned group = 0; group < kGroups; group++) {
    const Superblock* each = classes_[size_class].groups[group].front();
    for (; each != nullptr; each = each->next) {
      size_t free = 0;
      for (const Block* block = each->free; block != nullptr; block = block->next) free++;
      // relaxed: changed under the lock that the caller holds
      const bool is_mine = each->owner.load(kRelaxed) == this && each->size_class == size_class;
      const bool is_filed = each->group == group && each->fullness() == group;
      if (!is_mine || !is_filed) return false;
      if (each->used + free != each->capacity && !each->purged) return false;
      used += each->used;
      held += each->capacity;
    }
  }
  const Class& one = classes_[size_class];
  const bool has_empty = (with_empty_ >> size_class & 1) != 0;
  return used == one.used && held == one.held && has_empty == !one.groups[0].empty();
}

bool Heap::check() const {
  for (unsigned i = 0; i < size_classes.count(); i++) {
    if (!check(i)) return false;
    if (this != &global_heap() && is_too_empty(i, max_of(settings.slack, 1))) return false;
  }
  return true;
}

}  // namespace near::design::hoard

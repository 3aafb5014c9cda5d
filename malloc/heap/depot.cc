#include "heap/depot.h"

#include <new>

#include "node/memory.h"

namespace near {

constinit Depot depots[kMaxNodes];

namespace {

// Magazines by number. They are made a slab at a time, on the node that needs one.
constexpr size_t kSlabBytes = 8 * kKiB;
constexpr uint32_t kSlabMagazines = kSlabBytes / sizeof(Magazine);
constexpr uint32_t kMaxSlabs = 1 << 16;
constinit Atomic<Magazine*> slabs[kMaxSlabs];
constinit Atomic<uint32_t> slabs_made{0};

struct MagazineLinks {
  static Magazine& at(uint32_t number) {
    // relaxed: the number came from a stack, which published the slab
    Magazine* slab = slabs[(number - 1) / kSlabMagazines].load(kRelaxed);
    return slab[(number - 1) % kSlabMagazines];
  }
  Atomic<uint32_t>& next(uint32_t number) const { return at(number).next; }
};

size_t bytes_of(unsigned size_class) {
  return size_t{kMagazineCapacity[size_class]} * kSizeClasses[size_class].size;
}

// Makes a slab of empty magazines, and returns it; null if memory is refused.
Magazine* make_slab(unsigned node) {
  if (slabs_made.load(kRelaxed) >= kMaxSlabs) return nullptr;  // relaxed: a limit
  auto* slab = static_cast<Magazine*>(nodes[node].take_metadata(kSlabBytes));
  if (slab == nullptr) return nullptr;
  const uint32_t index = slabs_made.fetch_add(1, kRelaxed);  // relaxed: it only has to be unique
  if (index >= kMaxSlabs) {
    slabs_made.store(kMaxSlabs, kRelaxed);  // relaxed: as above
    return nullptr;
  }
  for (uint32_t i = 0; i < kSlabMagazines; i++) {
    new (&slab[i]) Magazine;
    slab[i].number = index * kSlabMagazines + i + 1;
  }
  slabs[index].store(slab, kRelaxed);  // relaxed: the stacks publish the numbers
  return slab;
}

}  // namespace

// --- a part ---

bool DepotPart::leave(unsigned size_class, Magazine& full, size_t most) {
  const size_t more = bytes_of(size_class);
  // relaxed: a bound that threads may exceed by one magazine each
  if (bytes_.load(kRelaxed) + more > most) return false;
  bytes_.fetch_add(more, kRelaxed);  // relaxed: as above
  Rack& rack = racks_[size_class];
  rack.full.push(MagazineLinks(), full.number);
  rack.count.fetch_add(1, kRelaxed);  // relaxed: a policy
  return true;
}

Magazine* DepotPart::pop(Rack& rack, unsigned size_class) {
  const uint32_t number = rack.full.pop(MagazineLinks());
  if (number == 0) return nullptr;
  bytes_.fetch_sub(bytes_of(size_class), kRelaxed);  // relaxed: as in `leave`
  rack.count.fetch_sub(1, kRelaxed);                 // relaxed: as in `leave`
  return &MagazineLinks::at(number);
}

Magazine* DepotPart::take(unsigned size_class) {
  Rack& rack = racks_[size_class];
  if (rack.full.is_empty()) return nullptr;
  Magazine* full = pop(rack, size_class);
  const int32_t count = rack.count.load(kRelaxed);  // relaxed: a policy
  // relaxed: as above
  if (count < rack.lowest.load(kRelaxed)) rack.lowest.store(count, kRelaxed);
  return full;
}

Magazine* DepotPart::take_surplus(unsigned size_class) {
  Rack& rack = racks_[size_class];
  const int32_t lowest = rack.lowest.load(kRelaxed);  // relaxed: a policy
  if (lowest <= 0) return nullptr;
  rack.lowest.store(lowest - 1, kRelaxed);  // relaxed: as above
  return pop(rack, size_class);
}

bool DepotPart::end_round(unsigned size_class) {
  Rack& rack = racks_[size_class];
  int32_t count = rack.count.load(kRelaxed);  // relaxed: a policy
  // In the child of a fork that interrupted `leave` in another thread, the count is too low.
  if (count <= 0 && !rack.full.is_empty()) count = 1;
  if (rack.lowest.load(kRelaxed) != count) rack.lowest.store(count, kRelaxed);  // relaxed: as above
  return !rack.full.is_empty();
}

Magazine* DepotPart::take_empty() {
  const uint32_t number = empty_.pop(MagazineLinks());
  return number == 0 ? nullptr : &MagazineLinks::at(number);
}

void DepotPart::leave_empty(Magazine& empty) { empty_.push(MagazineLinks(), empty.number); }

// --- all parts ---

bool Depot::make_parts(unsigned node) {
  if (part_count() > 0) return true;
  const unsigned cpus = topology.cpus[node];
  const auto count =
      static_cast<unsigned>(min_of(div_up(max_of(cpus, 1), kCpusOfPart), kMostParts));
  void* room = nodes[node].take_metadata(count * sizeof(DepotPart));
  if (room == nullptr) return false;
  parts_ = static_cast<DepotPart*>(room);
  for (unsigned i = 0; i < count; i++) new (&parts_[i]) DepotPart;
  most_ = max_of(cpus, 1) * kDepotBytes / count;
  count_.store(count, kRelease);  // pairs: depot-parts
  return true;
}

bool make_depots() {
  bool made = true;
  for (unsigned n = 0; n < topology.count; n++) made = made && depots[n].make_parts(n);
  return made;
}

bool Depot::leave(uint32_t self, unsigned size_class, Magazine& full) {
  return part_of(self).leave(size_class, full, most_);
}

Magazine* Depot::take(uint32_t self, unsigned size_class) {
  const unsigned count = part_count();
  for (unsigned i = 0; i < count; i++) {
    DepotPart& each = parts_[(self + i) % count];
    if (each.is_empty(size_class)) continue;
    if (Magazine* full = each.take(size_class)) return full;
  }
  return nullptr;
}

bool Depot::is_empty(unsigned size_class) const {
  for (unsigned i = 0; i < part_count(); i++) {
    if (!parts_[i].is_empty(size_class)) return false;
  }
  return true;
}

Magazine* Depot::take_empty(uint32_t self, unsigned node) {
  const unsigned count = part_count();
  for (unsigned i = 0; i < count; i++) {
    if (Magazine* empty = parts_[(self + i) % count].take_empty()) return empty;
  }
  Magazine* slab = make_slab(node);
  if (slab == nullptr) return nullptr;
  for (uint32_t i = 1; i < kSlabMagazines; i++) leave_empty(self, slab[i]);
  return &slab[0];
}

void Depot::leave_empty(uint32_t self, Magazine& empty) { part_of(self).leave_empty(empty); }

size_t Depot::bytes() const {
  size_t sum = 0;
  for (unsigned i = 0; i < part_count(); i++) sum += parts_[i].bytes();
  return sum;
}

void Depot::add_blocks(uint64_t* blocks_of_class) const {
  for (unsigned i = 0; i < part_count(); i++) {
    for (unsigned c = 0; c < kClasses; c++) {
      blocks_of_class[c] += uint64_t{parts_[i].count(c)} * kMagazineCapacity[c];
    }
  }
}

}  // namespace near

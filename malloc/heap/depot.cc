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

size_t most_bytes(unsigned node) { return topology.cpus[node] * kDepotBytes; }

}  // namespace

bool Depot::leave(unsigned size_class, Magazine& full) {
  const size_t more = bytes_of(size_class);
  const auto node = static_cast<unsigned>(this - depots);
  // relaxed: a bound that threads may exceed by one magazine each
  if (bytes_.load(kRelaxed) + more > most_bytes(node)) return false;
  bytes_.fetch_add(more, kRelaxed);  // relaxed: as above
  Rack& rack = racks_[size_class];
  rack.full.push(MagazineLinks(), full.number);
  rack.count.fetch_add(1, kRelaxed);  // relaxed: a policy
  return true;
}

Magazine* Depot::pop(Rack& rack, unsigned size_class) {
  const uint32_t number = rack.full.pop(MagazineLinks());
  if (number == 0) return nullptr;
  bytes_.fetch_sub(bytes_of(size_class), kRelaxed);  // relaxed: as in `leave`
  rack.count.fetch_sub(1, kRelaxed);                 // relaxed: as in `leave`
  return &MagazineLinks::at(number);
}

Magazine* Depot::take(unsigned size_class) {
  Rack& rack = racks_[size_class];
  if (rack.full.is_empty()) return nullptr;
  Magazine* full = pop(rack, size_class);
  const int32_t count = rack.count.load(kRelaxed);  // relaxed: a policy
  // relaxed: as above
  if (count < rack.lowest.load(kRelaxed)) rack.lowest.store(count, kRelaxed);
  return full;
}

Magazine* Depot::take_surplus(unsigned size_class) {
  Rack& rack = racks_[size_class];
  const int32_t lowest = rack.lowest.load(kRelaxed);  // relaxed: a policy
  if (lowest <= 0) return nullptr;
  rack.lowest.store(lowest - 1, kRelaxed);  // relaxed: as above
  return pop(rack, size_class);
}

bool Depot::end_round(unsigned size_class) {
  Rack& rack = racks_[size_class];
  int32_t count = rack.count.load(kRelaxed);  // relaxed: a policy
  // In the child of a fork that interrupted `leave` in another thread, the count is too low.
  if (count <= 0 && !rack.full.is_empty()) count = 1;
  if (rack.lowest.load(kRelaxed) != count) rack.lowest.store(count, kRelaxed);  // relaxed: as above
  return !rack.full.is_empty();
}

Magazine* Depot::take_empty(unsigned node) {
  if (const uint32_t number = empty_.pop(MagazineLinks())) return &MagazineLinks::at(number);
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
  for (uint32_t i = 1; i < kSlabMagazines; i++) leave_empty(slab[i]);
  return &slab[0];
}

void Depot::leave_empty(Magazine& empty) { empty_.push(MagazineLinks(), empty.number); }

}  // namespace near

// The heap's address space: one region for each node, with one half for small objects and one for
// big ones, so that an object's node is its address divided by the size of a region. [Yang23 §3.1]
//
//   base                      base + 2 halves
//   | small 0 | big 0 | small 1 | big 1 | ...        bound to nodes 0, 1, ...
//
// The metadata of each node are apart from the regions, on the same node: one byte for each bag of
// the small half (PerBagSizeInfo: the class of its objects, 0: none), one pointer for each bag of
// the big half (PerBigObjectSizeInfo), and the memory that Metadata hands out.
// Invariant: a bag of the small half has a class before an object of it is handed out, and keeps it
// for ever.
// Thread-safety: written at start, except the bytes of a bag, which the thread that takes the bag
// writes; read by any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/compiler.h"
#include "designs/numalloc/size_class.h"
#include "platform/topology.h"

namespace near::design::numalloc {

struct BigObject;

struct Regions {
  uintptr_t base = 0;
  unsigned half_shift = 63;            // log2 of the size of a half
  unsigned count = 0;                  // nodes
  uint8_t* bag_class[kMaxNodes] = {};  // for each node, indexed by the bag of its small half

  uintptr_t offset_of(const void* pointer) const {
    return reinterpret_cast<uintptr_t>(pointer) - base;
  }
  // 2 x node for the small half, 2 x node + 1 for the big one; from 2 x count on: not of this heap.
  uintptr_t half_of(const void* pointer) const { return offset_of(pointer) >> half_shift; }
  bool contains(const void* pointer) const { return half_of(pointer) < 2 * count; }
  // Requires: contains. The node of an object, its origin.
  unsigned node_of(const void* pointer) const {
    return static_cast<unsigned>(half_of(pointer) / 2);
  }
  // Requires: in a small half.
  unsigned class_of_bag(const void* pointer) const {
    return bag_class[node_of(pointer)][(offset_of(pointer) & (half_size() - 1)) >> kBagShift];
  }
  // Requires: in a bag of this class. In an object that is a run of bags, every bag passes.
  bool starts_object(const void* pointer, unsigned size_class) const {
    const size_t size = min_of(size_t{kClassSizes[size_class]}, kBagSize);
    const uintptr_t at = offset_of(pointer) & (kBagSize - 1);
    return at % size == 0 && at + size <= kBagSize;
  }
  size_t half_size() const { return size_t{1} << half_shift; }
  uintptr_t small_start(unsigned node) const { return base + 2 * node * half_size(); }
  uintptr_t big_start(unsigned node) const { return small_start(node) + half_size(); }
  size_t size() const { return 2 * count * half_size(); }
};

NEAR_HIDDEN extern Regions regions;

// Where the metadata of a node are.
struct MetadataPlace {
  uintptr_t start;  // of the memory that Metadata hands out
  size_t size;
  BigObject** big_objects;  // indexed by the bag of the big half
};

// Reserves regions and metadata and binds them. They are as large as the address space allows, at
// most the paper's 4 TB a node. False, with nothing changed, if memory is refused.
bool reserve_regions(unsigned nodes);
MetadataPlace metadata_of(unsigned node);
size_t reserved_bytes();
uint64_t refused_bindings();

// Makes writable the bytes that hold the classes of a range of regions. False if refused.
bool commit_bag_classes(uintptr_t start, size_t bytes);

// Marks the run of bags at `start`: they hold objects of this class from now on.
void mark_bags(const void* start, unsigned size_class);

}  // namespace near::design::numalloc

#include "designs/numalloc/region.h"

#include <cstring>

#include "designs/numalloc/bag.h"
#include "designs/numalloc/settings.h"
#include "designs/shared/machine.h"
#include "platform/options.h"
#include "platform/os.h"

namespace near::design::numalloc {
namespace {

constexpr size_t kHugePage = 2 * kMiB;
constexpr size_t kLargestPage = 64 * kKiB;
// A half is 2 TB as in the authors' code. TSan leaves programs little address space.
constexpr size_t kLargestHalf = NEAR_TSAN ? 8 * kGiB : 2048 * kGiB;
constexpr size_t kSmallestHalf = 2 * kMiB;
constexpr size_t kLargestHeap = size_t{1} << 46;  // of 2^47 bytes of addresses
constexpr size_t kLeastMetadata = kMiB;

uintptr_t metadata_base = 0;
size_t metadata_total = 0;
uint64_t refusals = 0;

// The parts of one node's metadata, in their order in memory.
struct Parts {
  size_t classes;  // one byte for each bag of the small half
  size_t big;      // one pointer for each bag of the big half
  size_t rest;

  explicit Parts(size_t half)
      : classes(align_up(half >> kBagShift, kLargestPage)),
        big(align_up((half >> kBagShift) * sizeof(void*), kLargestPage)),
        rest(align_up(kLeastMetadata + half / 64, kLargestPage)) {}
  size_t total() const { return classes + big + rest; }
};

size_t largest_half(unsigned nodes) {
  size_t half = kLargestHalf;
  os::record_limits();
  const size_t limit = os::limit();
  while (half > kSmallestHalf &&
         (2 * half * nodes > kLargestHeap || (limit != SIZE_MAX && 2 * half * nodes > limit / 2))) {
    half /= 2;
  }
  return half;
}

void bind_to(unsigned node, uintptr_t start, size_t bytes) {
  const auto mode = static_cast<Binding>(option(Option::bind));
  if (!topology().real || topology().count == 1 || mode == Binding::off) return;
  if (!os::bind(reinterpret_cast<void*>(start), bytes, topology().kernel_id[node],
                mode == Binding::strict)) {
    refusals++;
  }
}

// Huge pages serve small objects beyond the first huge page of a node, so that a small program
// stays small. Big objects keep the system's setting. Metadata are on normal pages. [Yang23 §3.4]
void advise(unsigned node, uintptr_t metadata, size_t metadata_bytes) {
  void* small = reinterpret_cast<void*>(regions.small_start(node));
  const size_t half = regions.half_size();
  if (!settings.huge_pages) {
    os::advise_huge_pages(small, 2 * half, false);
  } else {
    os::advise_huge_pages(small, kHugePage, false);
    if (half > kHugePage) {
      os::advise_huge_pages(static_cast<char*>(small) + kHugePage, half - kHugePage, true);
    }
  }
  os::advise_huge_pages(reinterpret_cast<void*>(metadata), metadata_bytes, false);
}

}  // namespace

constinit Regions regions;

bool reserve_regions(unsigned nodes) {
  for (size_t half = largest_half(nodes); half >= kSmallestHalf; half /= 2) {
    const Parts parts(half);
    const size_t heap = 2 * half * nodes;
    void* base = os::reserve(heap, kHugePage);
    if (base == nullptr) continue;
    void* metadata = os::reserve(parts.total() * nodes, kHugePage);
    // Makes it readable, so that any pointer into a region can be looked up.
    if (metadata == nullptr || !os::make_readable(metadata, parts.total() * nodes)) {
      if (metadata != nullptr) os::unreserve(metadata, parts.total() * nodes);
      os::unreserve(base, heap);
      continue;
    }
    metadata_base = reinterpret_cast<uintptr_t>(metadata);
    metadata_total = parts.total() * nodes;
    regions.base = reinterpret_cast<uintptr_t>(base);
    regions.half_shift = log2_floor(half);
    regions.count = nodes;
    for (unsigned node = 0; node < nodes; node++) {
      const uintptr_t own = metadata_base + node * parts.total();
      regions.bag_class[node] = reinterpret_cast<uint8_t*>(own);
      bind_to(node, regions.small_start(node), 2 * half);
      bind_to(node, own, parts.total());
      advise(node, own, parts.total());
    }
    return true;
  }
  return false;
}

MetadataPlace metadata_of(unsigned node) {
  const Parts parts(regions.half_size());
  const uintptr_t own = metadata_base + node * parts.total();
  return {own + parts.classes + parts.big, parts.rest,
          reinterpret_cast<BigObject**>(own + parts.classes)};
}

size_t reserved_bytes() { return regions.size() + metadata_total; }
uint64_t refused_bindings() { return refusals; }

bool commit_bag_classes(uintptr_t start, size_t bytes) {
  const uintptr_t offset = (start - regions.base) & (regions.half_size() - 1);
  uint8_t* table = regions.bag_class[regions.node_of(reinterpret_cast<void*>(start))];
  const size_t first = align_down(offset >> kBagShift, kLargestPage);
  const size_t last = align_up((offset + bytes) >> kBagShift, kLargestPage);
  // Committing a part again is harmless; a new part is needed only once in 2 GiB of objects.
  const bool begins = (offset >> kBagShift) % kLargestPage == 0;
  if (!begins && last - first == kLargestPage) return true;
  return os::commit(table + first, last - first);
}

void mark_bags(const void* start, unsigned size_class) {
  const uintptr_t offset = regions.offset_of(start) & (regions.half_size() - 1);
  memset(regions.bag_class[regions.node_of(start)] + (offset >> kBagShift),
         static_cast<int>(size_class), bag_bytes(size_class) >> kBagShift);
}

}  // namespace near::design::numalloc

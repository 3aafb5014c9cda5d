#include "node/memory.h"

#include <bit>
#include <cstdio>
#include <new>

#include "base/assert.h"
#include "platform/message.h"
#include "platform/options.h"
#include "platform/os.h"

namespace near {

constinit Topology topology;
constinit Node nodes[kMaxNodes];
constinit uintptr_t reserved_base;
constinit size_t reserved_bytes;
constinit Span* reserved_spans;

namespace {

constexpr size_t kRegionMin = 4 * kMiB;
constexpr size_t kAddedRegion = kGiB;  // wished size of a region added later
constexpr uint32_t kMaxAdded = 4096;   // regions added later
constexpr size_t kMetadataStep = 64 * kKiB;
constexpr size_t kPadding = 64 * kKiB;  // tables of two nodes share no page of any size

constinit Region first_regions[kMaxNodes];
constinit Mutex regions_lock{Rank::regions};
constinit Atomic<Region*> added_regions[kMaxAdded];  // slots are filled in order and never change
constinit Atomic<uint32_t> added_count{0};

struct MetadataPool {  // guard: regions_lock
  char* at = nullptr;
  char* end = nullptr;
};
constinit MetadataPool metadata_pools[kMaxNodes];
constinit Atomic<size_t> metadata_taken{0};

// Where the tables of some regions of equal size lie, and how much address space all of it takes.
struct Layout {
  uint32_t chunks;      // of one region
  size_t spans_bytes;   // of one region
  size_t chunks_bytes;  // of one region
  size_t tables_bytes;  // of all
  size_t bytes;         // of all

  Layout(unsigned regions, size_t region_bytes)
      : chunks(static_cast<uint32_t>(region_bytes >> kChunkShift)),
        spans_bytes(size_t{chunks} * kChunkSlices * sizeof(Span)),
        chunks_bytes(align_up(size_t{chunks + 1} * sizeof(Chunk), kPadding)),
        tables_bytes(align_up(regions * (spans_bytes + chunks_bytes), kChunkSize)),
        bytes(tables_bytes + regions * region_bytes) {}
};

void bind_to(unsigned node, void* start, size_t bytes) {
  const auto mode = static_cast<Binding>(option(Option::bind));
  if (!topology.real || topology.count == 1 || mode == Binding::off) return;
  if (!os::bind(start, bytes, topology.kernel_id[node], mode == Binding::strict)) {
    count_event(node_counters[node].bind_refused);
  }
}

// Builds `count` regions for nodes `first_node`... in reserved memory that begins at `tables`.
void build_regions(char* tables, const Layout& layout, Region* regions, unsigned count,
                   unsigned first_node) {
  auto* spans = reinterpret_cast<Span*>(tables);
  char* chunk_tables = tables + count * layout.spans_bytes;
  char* base = tables + layout.tables_bytes;
  const size_t region_bytes = size_t{layout.chunks} << kChunkShift;
  os::advise_huge_pages(tables, layout.tables_bytes, false);
  for (unsigned i = 0; i < count; i++) {
    Span* own_spans = spans + i * size_t{layout.chunks} * kChunkSlices;
    char* own_chunks = chunk_tables + i * layout.chunks_bytes;
    bind_to(first_node + i, own_spans, layout.spans_bytes);
    bind_to(first_node + i, own_chunks, layout.chunks_bytes);
    bind_to(first_node + i, base + i * region_bytes, region_bytes);
    regions[i].init(base + i * region_bytes, own_spans, reinterpret_cast<Chunk*>(own_chunks),
                    layout.chunks, first_node + i);
  }
}

size_t wished_region_bytes() {
  const auto fixed = static_cast<size_t>(option(Option::region_mib)) * kMiB;
  if (fixed != 0) return max_of(align_up(fixed, kChunkSize), kRegionMin);
  return max_of(std::bit_ceil(2 * os::physical_memory()), kGiB);
}

// Reserves a table and `count` regions of at most `wished` bytes, halving until the system accepts.
// Null if it never does.
char* reserve_regions(unsigned count, size_t wished, size_t least, size_t& region_bytes) {
  const size_t limit = os::address_space_limit();
  const auto smaller = [least](size_t bytes) {
    return bytes == least ? 0 : max_of(align_down(bytes / 2, kChunkSize), least);
  };
  for (region_bytes = wished; region_bytes != 0; region_bytes = smaller(region_bytes)) {
    const Layout layout(count, region_bytes);
    if (limit != SIZE_MAX && layout.bytes > limit / 4 && region_bytes > least) continue;
    auto* start = static_cast<char*>(os::reserve(layout.bytes, kChunkSize));
    if (start == nullptr) continue;
    // Descriptors that are not in use yet read as "no block here": a wild pointer finds them and is
    // reported.
    if (os::make_readable(start, layout.tables_bytes)) return start;
    os::unreserve(start, layout.bytes);
  }
  return nullptr;
}

void describe_start(size_t region_bytes) {
  char ids[kMaxNodes * 6] = "";
  size_t length = 0;
  for (unsigned n = 0; n < topology.count; n++) {
    length += static_cast<size_t>(
        snprintf(ids + length, sizeof ids - length, " %u", unsigned{topology.kernel_id[n]}));
  }
  message("%u node%s (%s):%s; %zu MiB reserved for each, pages of %zu bytes", topology.count,
          topology.count == 1 ? "" : "s", topology.real ? "from the kernel" : "given", ids,
          region_bytes / kMiB, os::page_size());
  if (topology.unused > 0) message("more nodes that are not told apart: %u", topology.unused);
}

void find_topology() {
  const char* text = topology_text();
  if (text != nullptr) {
    const char* wrong = parse_topology(text, topology);
    if (wrong == nullptr) return;
    message("NEARMALLOC_TOPOLOGY is ignored: %s", wrong);
  }
  read_topology(topology);
}

}  // namespace

NEAR_COLD void start_memory() {
  find_topology();
  size_t region_bytes = 0;
  char* tables = reserve_regions(topology.count, wished_region_bytes(), kRegionMin, region_bytes);
  if (tables == nullptr) return;
  const Layout layout(topology.count, region_bytes);
  build_regions(tables, layout, first_regions, topology.count, 0);
  for (unsigned n = 0; n < topology.count; n++) nodes[n].add(&first_regions[n]);
  reserved_spans = reinterpret_cast<Span*>(tables);
  reserved_base = reinterpret_cast<uintptr_t>(tables + layout.tables_bytes);
  reserved_bytes = topology.count * region_bytes;
  if (option(Option::verbose) != 0) describe_start(region_bytes);
}

namespace {

const Region* region_of(const void* address) {
  const size_t offset = offset_in_reservation(address);
  if (offset < reserved_bytes) return &first_regions[offset / first_regions[0].bytes()];
  const uint32_t count = added_count.load(kAcquire);  // pairs: added-regions
  for (uint32_t i = 0; i < count; i++) {
    const Region* region = added_regions[i].load(kRelaxed);  // relaxed: the count was acquired
    if (region->contains(address)) return region;
  }
  return nullptr;
}

}  // namespace

Span* span_of(const void* address) {
  const size_t offset = offset_in_reservation(address);
  if (offset < reserved_bytes) return &reserved_spans[offset >> kSliceShift];
  const Region* region = region_of(address);
  return region == nullptr ? nullptr : region->span_at(address);
}

const Span* enclosing_span(const void* address) {
  const Span* slice = span_of(address);
  if (slice == nullptr || slice->kind == SpanKind::blocks) return slice;
  if (slice->kind == SpanKind::inside) return slice - slice->back;
  const Region* region = region_of(address);
  for (const Span* head = slice; head >= region->span_at(region->chunk_start(0)); head--) {
    if (head->kind == SpanKind::none) continue;
    const bool holds = head->kind == SpanKind::large && head + head->slices > slice;
    return holds ? head : slice;
  }
  return slice;
}

void* take_metadata(unsigned node, size_t bytes) {
  const LockGuard guard(regions_lock);
  MetadataPool& pool = metadata_pools[node];
  bytes = align_up(bytes, 128);
  if (static_cast<size_t>(pool.end - pool.at) < bytes) {
    const size_t step = align_up(max_of(bytes, kMetadataStep), kMetadataStep);
    auto* start = static_cast<char*>(os::reserve(step, kMetadataStep));
    if (start == nullptr) return nullptr;
    bind_to(node, start, step);
    if (!os::commit(start, step)) {
      os::unreserve(start, step);
      return nullptr;
    }
    pool = {start, start + step};
  }
  void* taken = pool.at;
  pool.at += bytes;
  metadata_taken.fetch_add(bytes, kRelaxed);  // relaxed: a statistic
  return taken;
}

namespace {

// Adds a region with room for at least `bytes` to `node`. False if refused.
bool add_region(unsigned node, size_t bytes) {
  const size_t least = align_up(bytes, kChunkSize);
  size_t region_bytes = 0;
  char* tables = reserve_regions(1, max_of(least, kAddedRegion), least, region_bytes);
  if (tables == nullptr) return false;
  const Layout layout(1, region_bytes);
  void* room = take_metadata(node, sizeof(Region));  // last: it cannot be given back
  const LockGuard guard(regions_lock);
  const uint32_t count = added_count.load(kRelaxed);  // relaxed: changed under the lock only
  if (room == nullptr || count == kMaxAdded) {
    os::unreserve(tables, layout.bytes);
    return false;
  }
  auto* region = new (room) Region;
  build_regions(tables, layout, region, 1, node);
  added_regions[count].store(region, kRelaxed);  // relaxed: published by the count
  added_count.store(count + 1, kRelease);        // pairs: added-regions
  nodes[node].add(region);
  return true;
}

// From a region that is added to `node`, unless what refused memory was the system.
Span* take_from_added(unsigned node, uint32_t slices, bool& zero, size_t alignment) {
  const size_t bytes = (size_t{slices} << kSliceShift) + alignment;
  if (nodes[node].has_room(static_cast<uint32_t>(bytes >> kSliceShift))) return nullptr;
  if (!add_region(node, bytes)) return nullptr;
  return nodes[node].take(slices, zero, alignment);
}

}  // namespace

Span* take_slices(unsigned node, uint32_t slices, bool& zero, size_t alignment) {
  for (unsigned i = 0; i < topology.count; i++) {
    const unsigned other = topology.order[node][i];
    Span* span = nodes[other].take(slices, zero, alignment);
    if (span == nullptr) continue;
    if (i > 0) count_spill(node, other);
    return span;
  }
  return take_from_added(node, slices, zero, alignment);
}

Span* take_slices_at(unsigned node, uint32_t slices, bool& zero, size_t alignment) {
  Span* span = nodes[node].take(slices, zero, alignment);
  return span != nullptr ? span : take_from_added(node, slices, zero, alignment);
}

uint64_t spill_count() { return sum_of(&NodeCounters::spills_out); }
uint64_t bind_refused_count() { return sum_of(&NodeCounters::bind_refused); }
size_t metadata_bytes() { return metadata_taken.load(kRelaxed); }  // relaxed: a statistic

void lock_memory() {
  regions_lock.lock_for_fork();
  for (unsigned n = 0; n < topology.count; n++) nodes[n].lock.lock_for_fork();
}

void unlock_memory() {
  for (unsigned n = 0; n < topology.count; n++) nodes[n].lock.unlock_for_fork();
  regions_lock.unlock_for_fork();
}

}  // namespace near

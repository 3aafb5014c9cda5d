#include "node/memory.h"

#include <bit>
#include <cstdio>
#include <new>
#include <utility>

#include "base/assert.h"
#include "node/bind.h"
#include "node/mappings.h"
#include "node/places.h"
#include "platform/message.h"
#include "platform/options.h"
#include "platform/os.h"
#include "platform/random.h"

namespace near {

constinit Topology topology;
constinit Node nodes[kMaxNodes];
constinit AddressMap address_map;
constinit LinkKey link_key;
alignas(64) constinit Mutex windows_lock{Rank::windows};

namespace {

constexpr size_t kRegionMin = 4 * kMiB;
constexpr size_t kAddedWindow = kGiB;        // smallest planned size of a window added later
constexpr size_t kChosenWindow = 64 * kMiB;  // first size to try if the system places the window
constexpr uint32_t kMaxAdded = 4096;         // windows added later
constexpr unsigned kPlaceTries = 8;          // occupied places to try before the system chooses one

// Held to add a window.
alignas(64) constinit Mutex adding_lock{Rank::regions};
constinit Window first_window;
constinit Region first_regions[kMaxNodes];
constinit Budget budgets[kMaxNodes];
constinit unsigned first_tables[kMaxNodes];          // the table of shard 0; constant after start
constinit Atomic<Region*> added_regions[kMaxAdded];  // slots are filled in order and never change
constinit Atomic<uint32_t> added_count{0};
constinit size_t region_bytes = 0;      // each node's share of the first window
constinit bool tables_at_once = false;  // set at start, then constant
constinit uintptr_t lowest_place = 0;   // start of the lowest window so far; guard: adding_lock

size_t wished_region_bytes() {
  const auto fixed = static_cast<size_t>(option(Option::region_mib)) * kMiB;
  if (fixed != 0) return max_of(align_up(fixed, kChunkSize), kRegionMin);
  return max_of(std::bit_ceil(2 * os::physical_memory()), kGiB);
}

// A region as Region::init, which begins chunks at a random slice where places are random.
void begin_region(Region& region, Window& window, unsigned table, Shard& shard, Budget& budget) {
  region.init(window, table, shard, budget);
  if (os::landmark().spread == 0) return;
  const uint64_t drawn = secret(Secret::first_slice, reinterpret_cast<uintptr_t>(&region));
  region.begin_at(static_cast<unsigned>(drawn % kChunkSlices));
}

void describe_start() {
  char ids[kMaxNodes * 6] = "";
  size_t length = 0;
  for (unsigned n = 0; n < topology.count; n++) {
    length += static_cast<size_t>(
        snprintf(ids + length, sizeof ids - length, " %u", unsigned{topology.kernel_id[n]}));
  }
  message("%u node%s (%s):%s; %zu MiB planned for each, pages of %zu bytes", topology.count,
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

// Plans the first window for all nodes, and halves it until there is room for it.
NEAR_COLD void start_memory() {
  os::record_limits();
  mapping_count.set_limit(os::most_mappings());
  draw_key();
  link_key.value = secret(Secret::key_of_links);
  find_topology();
  region_bytes = wished_region_bytes();
  const auto chunks = [&] { return static_cast<uint32_t>(region_bytes >> kChunkShift); };
  unsigned tables = 0;
  for (unsigned n = 0; n < topology.count; n++) {
    first_tables[n] = tables;
    tables += most_shards_for(topology.cpus[n]);
  }
  const auto places = [&] {
    const uint32_t all = chunks() * topology.count;
    return first_places(size_t{all} << kChunkShift, Window::head_bytes_for(all, tables));
  };
  while (places().heap == 0 && region_bytes > kRegionMin) region_bytes /= 2;
  lowest_place = places().lowest();
  if (lowest_place == 0) {  // the system places every window, and each is shard 0's
    for (unsigned n = 0; n < topology.count; n++) nodes[n].init(n, 1);
    return first_window.end_here();
  }
  first_window.plan_apart(reinterpret_cast<char*>(places().head),
                          reinterpret_cast<char*>(places().heap), chunks() * topology.count,
                          tables);
  tables_at_once = first_window.may_map_tables(tables);
  for (unsigned n = 0; n < topology.count; n++) {
    nodes[n].init(n, most_shards_for(topology.cpus[n]));
    budgets[n].left = chunks();
    begin_region(first_regions[n], first_window, first_tables[n], nodes[n].shard(0), budgets[n]);
    nodes[n].shard(0).add(&first_regions[n]);
  }
  first_window.publish_to(address_map.bytes);
  address_map.spans = first_window.spans();
  address_map.base = reinterpret_cast<uintptr_t>(first_window.base());
  if (option(Option::verbose) != 0) describe_start();
}

namespace {

uint32_t windows_added() { return added_count.load(kAcquire); }  // pairs: added-regions

// The region whose window holds the address, among the windows added later; or null.
const Region* added_region_of(const void* address) {
  for (uint32_t i = 0, count = windows_added(); i < count; i++) {
    const Region* region = added_regions[i].load(kRelaxed);  // relaxed: the count was acquired
    if (region->window().contains(address)) return region;
  }
  return nullptr;
}

}  // namespace

void visit_windows(void (*visit)(const Window&, void*), void* data) {
  if (first_window.base() != nullptr) visit(first_window, data);
  for (uint32_t i = 0, count = windows_added(); i < count; i++) {
    visit(added_regions[i].load(kRelaxed)->window(), data);  // relaxed: the count was acquired
  }
}

Span* span_of(const void* address) {
  const size_t offset = offset_in_reservation(address);
  if (offset < first_window.described_bytes()) return &reserved_spans[offset >> kSliceShift];
  const Region* region = added_region_of(address);
  return region == nullptr ? nullptr : region->span_at(address);
}

const Span* enclosing_span(const void* address) {
  const Span* slice = span_of(address);
  if (slice == nullptr || slice->kind == SpanKind::blocks) return slice;
  if (slice->kind == SpanKind::inside) return slice - slice->back;
  const bool in_first = offset_in_reservation(address) < first_window.described_bytes();
  const Span* first = in_first ? reserved_spans : added_region_of(address)->window().spans();
  for (const Span* head = slice; head >= first; head--) {
    if (head->kind == SpanKind::none) continue;
    const bool holds = head->kind == SpanKind::large && head + head->slices > slice;
    return holds ? head : slice;
  }
  return slice;
}

namespace {

// A shard but the first of its node, and its region of the first window.
struct MoreShard {
  Shard shard;
  Region region;
};

// Chunks that are mapped ahead for the next shards of a node: many threads that start together
// should not wait for each other's system calls. Guard: the node's lock `making`.
struct Reserve {
  static constexpr uint32_t kChunks = 4;  // for each shard
  static constexpr unsigned kShards = 8;  // to map for at once, or as many as there are

  uint32_t table_entries = 0;  // of each table of the node, if all are mapped
  uint32_t first = 0;
  uint32_t left = 0;
  bool refused = false;  // it is not tried again

  bool fill(const Node& node);
};
constinit Reserve reserves[kMaxNodes];

// Maps chunks for the next shards. False if that is not wise or refused.
bool Reserve::fill(const Node& node) {
  const unsigned number = node.number();
  const unsigned shards = node.most_shards() - node.shard_count();
  const size_t ahead = max_of(kShards, node.shard_count());
  const auto wished = static_cast<uint32_t>(min_of(shards, ahead) * kChunks);
  {
    const LockGuard guard(windows_lock);
    Budget& budget = budgets[number];
    if (refused || os::limit() != SIZE_MAX || budget.left / 2 < wished) return false;
    left = first_window.give(wished, wished, first);
    budget.left -= left;
  }
  if (left == 0) return false;
  first_window.bind_descriptors(first, left, number);
  char* start = first_window.base() + (size_t{first} << kChunkShift);
  const size_t bytes = size_t{left} << kChunkShift;
  if (os::map(start, bytes) != os::Mapped::done) {
    left = 0;  // the addresses are lost
    refused = true;
    return false;
  }
  bind_to(number, start, bytes);
  os::advise_huge_pages(start, bytes, false);
  return true;
}

// What a new shard gets: its table in the first window, and chunks that are mapped already.
struct Start {
  unsigned table;
  uint32_t table_entries;
  uint32_t first;
  uint32_t chunks;  // 0: it maps some when it needs them
};

// Publishes the shard, with its lock `growing` held, unless the node has enough shards.
bool publish(Node& node, Shard& shard, Start& start) {
  const LockGuard guard(node.making);
  if (node.shard_count() >= node.most_shards()) return false;
  Reserve& reserve = reserves[node.number()];
  start.table = first_tables[node.number()] + node.shard_count();
  if (node.shard_count() == 1 && tables_at_once) {
    const unsigned tables = node.most_shards() - 1;
    reserve.table_entries = first_window.map_tables(start.table, tables, node.number());
  }
  start.table_entries = reserve.table_entries;
  // Only with a table that is mapped already, so that chunks that were taken here are never lost.
  const bool has_chunks = start.table_entries > 0 && (reserve.left > 0 || reserve.fill(node));
  start.chunks = has_chunks ? Reserve::kChunks : 0;
  start.first = reserve.first;
  reserve.first += start.chunks;
  reserve.left -= start.chunks;
  shard.growing.lock();
  node.add(shard);
  return true;
}

}  // namespace

// Threads that start together make their shards side by side: a shard is published before it has
// any memory, and its maker touches the new tables while it holds only that shard's `growing`.
NEAR_COLD Shard* add_shard(Node& node) {
  if (holds_all()) return nullptr;  // fork releases the locks of the shards that it locked
  if (node.shard_count() >= node.most_shards() || first_window.occupied()) return nullptr;
  void* room = node.take_metadata(sizeof(MoreShard));
  if (room == nullptr) return nullptr;
  auto* more = new (room) MoreShard;
  Start start{};
  if (!publish(node, more->shard, start)) return nullptr;
  begin_region(more->region, first_window, start.table, more->shard, budgets[node.number()]);
  more->region.set_table_end(start.table_entries);
  if (start.chunks > 0) more->region.own_reserved(start.first, start.chunks);
  more->shard.add(&more->region);
  more->shard.growing.unlock();
  return &more->shard;
}

namespace {

// A window for one node, added when the windows before it are full.
struct Added {
  Window window;
  Region region;
  Budget budget;
};
constinit void* spare_room[kMaxNodes] = {};  // for an Added; guard: adding_lock

// A request for slices from a new window of a node.
struct Request {
  unsigned node;
  const RunRequest& run;

  size_t bytes() const { return align_up(size_t{run.with_slack()} << kSliceShift, kChunkSize); }
};

// Plans a window at `start`, which no other thread knows yet, and takes the run from it. Null if
// the system refuses or other code has mapped something there; then a window that was not `mapped`
// leaves no mapping behind.
Span* try_window(Added& added, char* start, size_t bytes, bool mapped, const Request& request,
                 bool& zero) {
  const auto chunks = static_cast<uint32_t>(bytes >> kChunkShift);
  added.window.plan(start, chunks, 1, mapped);
  added.budget.left = chunks;
  begin_region(added.region, added.window, 0, nodes[request.node].shard(0), added.budget);
  if (mapped) added.region.own_mapped();
  Span* span = nodes[request.node].shard(0).take_from_new(added.region, request.run, zero);
  if (span == nullptr && !mapped) added.region.vanish();
  return span;
}

// Places the new window below the existing ones, at the first free place.
Span* take_from_planned(void* room, const Request& request, bool& zero) {
  // If the first window has ended early, the added ones take its place and are as large.
  const size_t usual = first_window.occupied() ? max_of(region_bytes, kAddedWindow) : kAddedWindow;
  for (unsigned tries = 0; tries < kPlaceTries; tries++) {
    const size_t bytes = max_of(request.bytes(), usual);
    const size_t all = Window::bytes_for(static_cast<uint32_t>(bytes >> kChunkShift), 1);
    if (lowest_place / 2 < all) return nullptr;
    const uintptr_t place = align_down(lowest_place - all, kChunkSize);
    auto* added = new (room) Added;
    Span* span = try_window(*added, reinterpret_cast<char*>(place), bytes, false, request, zero);
    const bool occupied = added->window.occupied();
    if (span != nullptr || occupied) lowest_place = place;
    if (span != nullptr || !occupied) return span;
  }
  return nullptr;
}

// The last resort: a window at a place of the system's choice, mapped as a whole.
Span* take_from_chosen(void* room, const Request& request, bool& zero) {
  const size_t least = request.bytes();
  for (size_t bytes = max_of(least, kChosenWindow); bytes != 0;
       bytes = bytes == least ? 0 : max_of(align_down(bytes / 2, kChunkSize), least)) {
    const size_t all = Window::bytes_for(static_cast<uint32_t>(bytes >> kChunkShift), 1);
    auto* start = static_cast<char*>(os::map_anywhere(all, kChunkSize));
    if (start == nullptr) continue;
    bind_to(request.node, start, all);
    return try_window(*new (room) Added, start, bytes, true, request, zero);
  }
  return nullptr;
}

// Takes the run from a window added to the node. Null if refused. `seen`: windows added before.
Span* take_from_added(const Request& request, uint32_t seen, bool& zero) {
  Node& node = nodes[request.node];
  if (node.has_room(static_cast<uint32_t>(request.bytes() >> kSliceShift))) {
    if (windows_added() == seen) return nullptr;  // refused by the system
    return node.take(node.shard(0), request.run, zero);
  }
  const LockGuard guard(adding_lock);
  const uint32_t count = windows_added();
  void*& room = spare_room[request.node];
  if (room == nullptr) room = node.take_metadata(sizeof(Added));
  if (room == nullptr || count == kMaxAdded) return nullptr;
  Span* span = take_from_planned(room, request, zero);
  if (span == nullptr) span = take_from_chosen(room, request, zero);
  if (span == nullptr) return nullptr;
  Region* region = &static_cast<Added*>(std::exchange(room, nullptr))->region;
  added_regions[count].store(region, kRelaxed);  // relaxed: published by the count
  added_count.store(count + 1, kRelease);        // pairs: added-regions
  node.shard(0).add(region);
  return span;
}

}  // namespace

// Other nodes serve the request before a window is added, unless the first window ended early: then
// each node that is tried may add one.
Span* take_slices(Shard& home, const RunRequest& request, bool& zero) {
  const unsigned node = home.node().number();
  const uint32_t seen = windows_added();
  for (unsigned i = 0; i < topology.count; i++) {
    const unsigned other = topology.order[node][i];
    Shard& shard = i == 0 ? home : nodes[other].shard_for(home.number());
    Span* span = first_window.occupied() ? take_slices_at(shard, request, zero)
                                         : nodes[other].take(shard, request, zero);
    if (span == nullptr) continue;
    if (i > 0) count_spill(node, other);
    return span;
  }
  return take_from_added({node, request}, seen, zero);
}

Span* take_slices_at(Shard& home, const RunRequest& request, bool& zero) {
  Node& node = home.node();
  const uint32_t seen = windows_added();
  Span* span = node.take(home, request, zero);
  return span != nullptr ? span : take_from_added({node.number(), request}, seen, zero);
}

void lock_memory() {
  adding_lock.lock_for_fork();
  for (unsigned n = 0; n < topology.count; n++) nodes[n].lock_growing_for_fork();
  windows_lock.lock_for_fork();
  for (unsigned n = 0; n < topology.count; n++) nodes[n].lock_for_fork();
}

void unlock_memory() {
  for (unsigned n = 0; n < topology.count; n++) nodes[n].unlock_for_fork();
  windows_lock.unlock_for_fork();
  for (unsigned n = 0; n < topology.count; n++) nodes[n].unlock_growing_for_fork();
  adding_lock.unlock_for_fork();
}

void unlock_memory_in_child() {
  mapping_count.count_fork();
  for (unsigned n = 0; n < topology.count; n++) nodes[n].restore_withdrawn();
  unlock_memory();
}

}  // namespace near

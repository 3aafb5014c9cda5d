// The slow half of Checks: every block, and what the statistics say.
#include <algorithm>
#include <bit>

#include "heap/registry.h"
#include "nearmalloc/nearmalloc.h"
#include "numa/simulator_checks.h"
#include "span/span.h"

namespace near_test {
namespace {

uint32_t number_of(const near::Span& span, const void* block) {
  const auto offset = static_cast<const char*>(block) - span.start;
  return static_cast<uint32_t>(static_cast<size_t>(offset) / span.shape().size);
}

}  // namespace

void Checks::everything() {
  Journal& journal = model_.journal;
  collect();
  const Blocks live = live_blocks();
  auto at = live.begin();
  for (const Owned& each : owned_) {
    auto end = at;
    while (end != live.end() && end->first == each.span) ++end;
    check_blocks(*each.span, at, static_cast<size_t>(end - at));
    at = end;
  }
  journal.demand(at == live.end(), "a live block in a span that serves no blocks");
  for (const near::Heap* heap : {&near::empty_heap, &near::exited_heap}) check_bins(*heap);
  for (uint32_t id = 0; id < near::heap_count(); id++) {
    check_bins(*near::heap_by_id(id));
    check_cache(*near::heap_by_id(id));
  }
  check_inboxes();
  check_statistics();
  for (const LiveBlock& block : model_.blocks)
    journal.demand(is_intact(block), "a live block lost its content", {block.size});
  journal.count(Event::full_check);
}

// Checks the blocks of classes, by span.
Checks::Blocks Checks::live_blocks() {
  const Journal& journal = model_.journal;
  Blocks live;
  size_t large = 0;
  for (const LiveBlock& block : model_.blocks) {
    const near::Span& span = span_of_block(block.start);
    if (span.kind == near::SpanKind::large) {
      journal.demand(span.start == block.start && span.asked >= block.size,
                     "a large block is less than what was asked for", {block.size, span.asked});
      large++;
    } else {
      live.emplace_back(&span, number_of(span, block.start));
    }
  }
  for (const BoundHeap& heap : model_.bound_heaps) {
    const near::Span& span = span_of_block(heap.handle);
    live.emplace_back(&span, number_of(span, heap.handle));
  }
  journal.demand(large == large_.size(), "large blocks; the model's, the allocator's",
                 {large, large_.size()});
  std::sort(live.begin(), live.end());
  return live;
}

void Checks::mark(const near::Span& span, const near::Block* block) {
  const Journal& journal = model_.journal;
  journal.demand(near::span_of(block) != nullptr && &span_of_block(block) == &span &&
                     near::is_block(span, block),
                 "a free list holds what is no block of its span", {span.shape().size});
  uint8_t& seen = seen_[number_of(span, block)];
  journal.demand(seen == 0, "a block is free and live, or free twice",
                 {span.shape().size, number_of(span, block)});
  seen = 1;
}

// The blocks that begin in an uncarved page, or those that are themselves as large as pages.
void Checks::mark_uncarved(const near::Span& span) {
  const near::SizeClass& shape = span.shape();
  for (uint32_t number = 0; number < shape.capacity; number++) {
    const size_t offset = size_t{number} * shape.size;
    const size_t unit = near::carves_blocks(shape) ? number : offset >> near::kPageShift;
    if ((span.uncarved >> unit & 1) == 0) continue;
    mark(span, reinterpret_cast<const near::Block*>(span.start + offset));
  }
}

void Checks::check_blocks(const near::Span& span, Blocks::const_iterator live, size_t count) {
  const Journal& journal = model_.journal;
  const near::Heap& owner = *span.owner.load();
  const uint32_t capacity = span.shape().capacity;
  journal.demand(owner.check_span(span) == 0, "Heap::check_span", {span.shape().size});
  seen_.assign(capacity, 0);
  for (size_t i = 0; i < count; i++) {
    uint8_t& seen = seen_[live[static_cast<ptrdiff_t>(i)].second];
    journal.demand(seen == 0, "a block was handed out twice", {span.shape().size});
    seen = 1;
  }
  uint32_t free = 0;
  for (near::ListWalk walk(span, *span.list); const near::Block* block = walk.next(); free++)
    mark(span, block);
  const uint32_t uncarved = near::count_uncarved(span);
  mark_uncarved(span);
  const uint32_t remote = span.remote.count();
  const near::Block* block = span.remote.peek(near::SpanBlocks{span.start});
  for (uint32_t i = 0; i < remote; i++, block = block->next()) {
    journal.demand(block != nullptr, "a remote list is shorter than its count", {remote, i});
    mark(span, block);
  }
  uint32_t spare = 0;
  owner.spares().for_each([&](unsigned, const near::Block* each) {
    if (&span_of_block(each) != &span) return;
    mark(span, each);
    spare++;
  });
  journal.demand(count + free + uncarved + remote + spare == capacity,
                 "live + free + uncarved + remote + spare is not the capacity",
                 {count, free, uncarved, remote, spare, capacity});
  if (!owner.is_hot(span)) {
    journal.demand(span.frees.freed() == free + uncarved, "the count of a cold span is wrong",
                   {span.frees.freed(), free, uncarved});
  }
}

// The state of every span enters the hash, in an order that is not that of addresses.
void Checks::record_state() {
  for (unsigned node = 0; node < near::topology.count; node++) {
    near::nodes[node].for_each_span([&](const near::Span& span) {
      if (span.kind != near::SpanKind::blocks) return;
      const auto offset = static_cast<size_t>(span.start - span.region->chunk_start(0));
      model_.journal.note({node, model_.regions.of(span.region), offset >> near::kSliceShift,
                           span.size_class, span.owner.load()->id(),
                           near::count_free(span, *span.list), span.remote.count()});
    });
  }
}

void Checks::check_bins(const near::Heap& heap) {
  const Journal& journal = model_.journal;
  for (unsigned c = 0; c < near::kClasses; c++) {
    const near::Block* block = heap.bins[c].front();
    if (block == nullptr) continue;
    const bool known = near::span_of(block) != nullptr;
    const near::Span* span = known ? &span_of_block(block) : nullptr;
    journal.demand(known && span->owner.load() == &heap && span->size_class == c &&
                       heap.is_hot(*span) && span->list == &heap.bins[c],
                   "a bin holds what is no block of the heap's hot span", {heap.id(), c});
  }
}

// A heap uses the memory that it keeps of other nodes: an empty spilled span goes home.
void Checks::check_cache(const near::Heap& heap) {
  uint64_t bytes[near::kMaxNodes] = {};
  heap.add_cached(bytes);
  for (unsigned node = 0; node < near::topology.count; node++) {
    model_.journal.demand(node == heap.node() || bytes[node] == 0,
                          "a heap keeps an empty span of another node; heap, its node, the other",
                          {heap.id(), heap.node(), node});
  }
}

// The owner's inbox holds exactly the spans with remote blocks.
void Checks::check_inboxes() {
  std::vector<bool> waits(near::heap_count(), false);
  for (const Owned& each : owned_) {
    if (each.span->remote.count() > 0) waits[each.owner->id()] = true;
  }
  for (uint32_t id = 0; id < near::heap_count(); id++) {
    model_.journal.demand(near::heap_by_id(id)->inbox_empty() != waits[id],
                          "an inbox and the remote lists disagree; heap, remote blocks wait",
                          {id, waits[id] ? 1U : 0U});
  }
}

void Checks::check_statistics() {
  const Journal& journal = model_.journal;
  near_stats stats;
  near_get_stats(&stats);
  uint64_t waiting = 0;
  for (const Owned& each : owned_) waiting += each.span->remote.count();
  size_t large = 0;
  for (const near::Span* span : large_) large += span->bytes();
  const auto expect = [&](const char* what, uint64_t counted, uint64_t expected) {
    journal.demand(counted == expected, what, {counted, expected});
  };
  expect("statistics: rehomes", stats.rehomes, journal.seen(Event::rehome));
  expect("statistics: spills", stats.spills, journal.seen(Event::spill));
  expect("statistics: adoptions", stats.adoptions, journal.seen(Event::adoption));
  expect("statistics: remote blocks", stats.remote_blocks + waiting, model_.remote_frees);
  expect("statistics: bytes of large blocks", stats.large, large);
  expect("statistics: large blocks", stats.large_blocks, large_.size());
  expect("statistics: heaps", stats.heaps, near::heap_count());
  expect("statistics: batches", stats.free_batches, journal.seen(Event::batch));
  expect("statistics: blocks of batches", stats.free_batch_blocks, journal.seen(Event::batched));
  expect("statistics: groups of batches", stats.free_batch_groups, journal.seen(Event::group));
  expect("statistics: nodes", stats.nodes, model_.world.nodes);
  check_node_statistics(false);
}

// Frees into own spans may be hidden for a while; other frees, and all counts of a node, are
// exact.
void Checks::check_node_statistics(bool nothing_hidden) {
  const Journal& journal = model_.journal;
  std::vector<size_t> bytes(near::topology.count, 0);
  for (const Owned& each : owned_) bytes[each.span->region->node()] += each.span->bytes();
  for (const near::Span* span : large_) bytes[span->region->node()] += span->bytes();
  for (unsigned node = 0; node < near::topology.count; node++) {
    const NodeAccount& account = model_.nodes[node];
    near_node_stats stats;
    journal.demand(near_get_node_stats(node, &stats) == 0, "near_get_node_stats", {node});
    const auto expect = [&](const char* what, uint64_t counted, uint64_t expected) {
      journal.demand(counted == expected, what, {node, counted, expected});
    };
    expect("of a node: its number", stats.node, near::topology.kernel_id[node]);
    expect("of a node: rehomes", stats.rehomes, account.rehomes);
    expect("of a node: spills out", stats.spills_out, account.spills_out);
    expect("of a node: spills in", stats.spills_in, account.spills_in);
    expect("of a node: strict requests refused", stats.refused, account.refused);
    expect("of a node: bytes in spans", stats.in_spans, bytes[node] + stats.cached);
    uint64_t freed_by[near::kMaxNodes];
    journal.demand(near_get_freed(node, freed_by) == 0, "near_get_freed", {node});
    for (unsigned by = 0; by < near::topology.count; by++) {
      const uint64_t all = account.freed_own[by] + account.freed_apart[by];
      const uint64_t least = nothing_hidden ? all : account.freed_apart[by];
      journal.demand(freed_by[by] >= least && freed_by[by] <= all,
                     "frees between nodes; of, by, counted, at least, all",
                     {node, by, freed_by[by], least, all});
    }
  }
}

}  // namespace near_test

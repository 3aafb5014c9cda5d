#include "numa/simulator_checks.h"

#include <algorithm>

#include "heap/registry.h"
#include "support/fake_os.h"

namespace near_test {

void Checks::begin_step(unsigned acting) {
  running_.clear();
  for (const VirtualThread& thread : model_.threads) {
    if (thread.number != acting && is_real(thread.heap)) running_.push_back(thread.heap);
  }
  refusals_ = fake_os::refusals() + fake_os::shortages();
}

void Checks::after_step() {
  collect();
  check_changes();
  check_heaps();
  check_some_blocks();
}

// Looks at every descriptor.
void Checks::collect() {
  before_.swap(owned_);
  owned_.clear();
  large_.clear();
  for (unsigned node = 0; node < near::topology.count; node++) {
    near::nodes[node].for_each_span([&](const near::Span& span) {
      model_.journal.demand(span.remote.look().is_open() == (span.kind == near::SpanKind::blocks),
                            "a free by another thread takes a slice for what it is not", {node});
      if (span.kind != near::SpanKind::blocks && span.kind != near::SpanKind::large) return;
      check_place(span, node);
      const near::Heap* owner = span.owner.load();
      if (span.kind == near::SpanKind::large) {
        model_.journal.demand(owner == nullptr, "a large block has an owner", {node});
        large_.push_back(&span);
        return;
      }
      check_owner(span);
      owned_.push_back({&span, owner});
    });
  }
  std::sort(owned_.begin(), owned_.end(),
            [](const Owned& a, const Owned& b) { return a.span < b.span; });
}

void Checks::check_place(const near::Span& span, unsigned node) {
  const Journal& journal = model_.journal;
  journal.demand(span.region != nullptr && span.region->node() == node,
                 "a span in a region of another node than lists it", {node});
  journal.demand(span.node == node, "a span that does not know its node", {span.node, node});
  const near::Window& window = span.region->window();
  journal.demand(window.contains(span.start) && span.region->span_at(span.start) == &span,
                 "a descriptor that is not its slice's", {node});
  const bool is_class = span.kind == near::SpanKind::blocks;
  journal.demand(span.slices > 0 && (!is_class || span.slices == span.shape().slices),
                 "a span of a wrong length", {span.slices});
  const char* last = span.start - span.offset() + span.bytes() - 1;
  journal.demand(window.contains(last), "a span in two windows", {node});
  for (uint32_t i = 1; is_class && i < span.slices; i++) {
    const near::Span& inside = (&span)[i];
    journal.demand(inside.kind == near::SpanKind::inside && inside.back == i,
                   "a slice of a span that is not marked so", {i});
  }
  check_binding(span.start, node);
  check_binding(&span, node);
}

// What was bound was bound to the node: the memory mapped at the start is not bound, nor is what
// was refused.
void Checks::check_binding(const void* address, unsigned node) {
  const int bound = fake_os::bound_node(address);
  model_.journal.demand(bound < 0 || bound == near::topology.kernel_id[node],
                        "memory is bound to another node", {node});
}

void Checks::check_owner(const near::Span& span) {
  const Journal& journal = model_.journal;
  const near::Heap* owner = span.owner.load();
  const unsigned node = span.region->node();
  journal.demand(owner != nullptr, "a span without an owner", {node});
  journal.demand(near::heap_by_id(owner->id()) == owner, "an owner that is no heap");
  journal.demand(span.remote.owner() == owner->id(),
                 "remote frees go to another heap than the owner",
                 {span.remote.owner(), owner->id()});
  journal.demand(!owner->home_only || owner->node() == node,
                 "a heap for one node has a span of another", {owner->node(), node});
  if (owner->node() == node) return placement_.forget(span);
  journal.demand(placement_.is_spilled(span, owner->node()),
                 "a heap has a span of another node; the heap's, the span's",
                 {owner->node(), node});
}

// A running thread's span becomes another's only by way of its node, when memory is short.
void Checks::check_changes() {
  if (fake_os::refusals() + fake_os::shortages() != refusals_) return;
  auto before = before_.begin();
  for (const Owned& now : owned_) {
    while (before != before_.end() && before->span < now.span) ++before;
    if (before == before_.end()) return;
    if (before->span != now.span || before->owner == now.owner) continue;
    const bool running =
        std::find(running_.begin(), running_.end(), before->owner) != running_.end();
    model_.journal.demand(!running, "a span was taken from a thread that runs; from, to",
                          {before->owner->id(), now.owner->id()});
  }
}

void Checks::check_heaps() {
  const Journal& journal = model_.journal;
  std::vector<bool> has_thread(near::heap_count(), false);
  for (const VirtualThread& thread : model_.threads) {
    if (!is_real(thread.heap)) continue;
    journal.demand(!has_thread[thread.heap->id()], "two threads have one heap",
                   {thread.heap->id()});
    has_thread[thread.heap->id()] = true;
  }
  uint32_t parked = 0;
  size_t shared = 0;
  for (uint32_t id = 0; id < near::heap_count(); id++) {
    const near::Heap* heap = near::heap_by_id(id);
    check_binding(heap, heap->node());
    journal.demand(!(heap->registration.parked && has_thread[id]), "a heap with a thread is parked",
                   {id});
    journal.demand(heap->registration.parked || has_thread[id] || heap->is_shared(),
                   "a heap is lost: no thread has it, nobody shares it, it is not parked", {id});
    journal.demand(!heap->is_shared() || !(heap->registration.parked || has_thread[id]),
                   "a shared heap is a thread's, or parked", {id});
    if (heap->registration.parked) parked++;
    if (heap->is_shared()) shared++;
  }
  journal.demand(parked == near::heap_totals().parked, "parked heaps are not counted right",
                 {parked, near::heap_totals().parked});
  size_t bound = 0;
  for (const BoundHeap& heap : model_.bound_heaps) bound += heap.count;
  const size_t by_node = 2 * near::topology.count;  // each has a fallback heap and a node heap
  journal.demand(shared >= bound && shared <= bound + by_node, "shared heaps; bound heaps",
                 {shared, bound});
}

void Checks::check_some_blocks() {
  constexpr size_t kSome = 4;
  for (size_t i = 0; i < kSome && !model_.blocks.empty(); i++) {
    next_block_ = (next_block_ + 1) % model_.blocks.size();
    const LiveBlock& block = model_.blocks[next_block_];
    model_.journal.demand(is_intact(block), "a live block lost its content", {block.size});
  }
}

void Checks::expect_trimmed() {
  std::vector<size_t> slices(near::topology.count, 0);
  for (const Owned& each : owned_) slices[each.span->region->node()] += each.span->slices;
  for (const near::Span* span : large_) slices[span->region->node()] += span->slices;
  for (unsigned node = 0; node < near::topology.count; node++) {
    const size_t in_spans = near::nodes[node].totals().in_spans >> near::kSliceShift;
    model_.journal.demand(in_spans == slices[node], "slices are lost; node, in spans, of spans",
                          {node, in_spans, slices[node]});
    const size_t dirty = near::nodes[node].dirty_bytes();
    model_.journal.demand(dirty == 0, "memory is dirty after a trim; node, bytes", {node, dirty});
  }
}

void Checks::expect_nothing() {
  model_.journal.demand(large_.empty(), "large blocks are left", {large_.size()});
  for (const Owned& each : owned_) {
    model_.journal.fail("a span is left in a heap though all blocks are free; heap, node, class",
                        {each.owner->id(), each.span->region->node(), each.span->size_class});
  }
  check_node_statistics(true);
}

}  // namespace near_test

#include "numa/simulator_placement.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "heap/registry.h"
#include "nearmalloc/nearmalloc.h"
#include "support/fake_os.h"

namespace near_test {
namespace {

constexpr unsigned kSettle = 8;  // slow paths between two changes of a thread's heap, at least

uint64_t refills() {
  uint64_t sum = 0;
  for (uint32_t id = 0; id < near::heap_count(); id++) sum += near::heap_by_id(id)->visits();
  return sum;
}

// True if the system refused something.
bool was_refused(const Placement::Before& before) {
  return fake_os::refusals() + fake_os::shortages() != before.refusals;
}

// Slices that a run for the span would have needed, wherever it lay.
uint32_t wanted_slices(const near::Span& span) {
  constexpr uint32_t kSlack = near::kMiB >> near::kSliceShift;  // of the largest alignment
  return span.kind == near::SpanKind::large ? span.slices + kSlack : span.slices;
}

// True if the node has room for the span's run, whatever its alignment was: a run of 17 slices may
// lie in two chunks where one of 16 may not (near::lies_in_chunk).
bool has_room(unsigned node, const near::Span& span) {
  for (uint32_t slices = span.slices; slices <= wanted_slices(span); slices++) {
    if (!near::nodes[node].has_room(slices)) return false;
  }
  return true;
}

// True if a run of slices is free in a chunk of the node.
bool has_free_run(unsigned node, uint32_t slices) {
  std::vector<const near::Region*> regions;
  near::nodes[node].for_each_span([&](const near::Span& span) {
    if (span.region == nullptr) return;
    if (std::find(regions.begin(), regions.end(), span.region) == regions.end())
      regions.push_back(span.region);
  });
  for (const near::Region* region : regions) {
    for (uint32_t i = 0; i < region->chunks_end(); i++) {
      if (region->is_mapped(i) && near::longest_run(region->chunk(i).free) >= slices) return true;
    }
  }
  return false;
}

}  // namespace

Placement::Before Placement::look() {
  return {near::current_heap,
          refills(),
          near::spill_count(),
          near::rehome_count(),
          near::heap_totals().adoptions,
          fake_os::refusals() + fake_os::shortages()};
}

bool Placement::is_spilled(const near::Span& span, unsigned home) const {
  const auto at = spilled_.find(&span);
  return at != spilled_.end() && at->second == home;
}

// The rule of re-homing, when `slow` slow paths of malloc were taken: the heap follows the thread,
// but not twice in kSettle of them.
void Placement::follow(VirtualThread& thread, const Before& before, uint64_t slow, bool moved) {
  Residence& rule = thread.residence;
  const bool away = is_real(before.heap) && before.heap->node() != thread.node();
  model_.journal.demand(!moved || (slow > 0 && away), "a heap changed without a reason", {slow});
  if (slow == 0) return;
  rule.slow_paths++;
  const bool tried_again = slow > 1 || was_refused(before);
  if (!tried_again && rule.doubtful == 0) {
    const bool shall_move = away && rule.slow_paths >= kSettle;
    model_.journal.demand(shall_move == moved,
                          "a heap that followed too early, or not; moved, away",
                          {moved ? 1U : 0U, away ? 1U : 0U, rule.slow_paths});
  }
  if (moved) rule.slow_paths = 0;
  if (tried_again) {
    rule.doubtful = kSettle;
  } else if (moved) {
    rule.doubtful = 0;
  } else if (rule.doubtful > 0 && --rule.doubtful == 0) {
    rule.slow_paths = kSettle;
  }
}

void Placement::check_heap(VirtualThread& thread, const Before& before, bool is_large) {
  Journal& journal = model_.journal;
  const near::Heap* after = near::current_heap;
  const bool moved = is_real(before.heap) && after != before.heap;
  const bool by_large = is_large && is_real(before.heap);
  const uint64_t slow = refills() - before.refills + (by_large ? 1 : 0);
  const uint64_t rehomes = near::rehome_count() - before.rehomes;
  const uint64_t adoptions = near::heap_totals().adoptions - before.adoptions;
  journal.demand(rehomes == (moved ? 1U : 0U), "re-homings are not counted one by one", {rehomes});
  journal.demand(adoptions <= slow, "adoptions are not counted one by one", {adoptions, slow});
  journal.count(Event::adoption, adoptions);
  if (after != before.heap) {
    journal.demand(is_real(after), "a thread lost its heap");
    journal.demand(after->node() == thread.node(),
                   "a heap of another node; the thread's, the heap's",
                   {thread.node(), after->node()});
    journal.note("heap", {after->id(), after->node()});
  }
  if (moved) {
    // A thread that makes a bound heap may get the very heap that it left.
    journal.demand(before.heap->registration.parked || before.heap->is_shared(),
                   "the heap that was left is not parked", {before.heap->id()});
    journal.count(Event::rehome);
    model_.nodes[after->node()].rehomes++;
  }
  follow(thread, before, slow, moved);
}

void Placement::check_other(VirtualThread& thread, const Before& before, bool asked) {
  if (asked) return check_heap(thread, before, false);
  const Journal& journal = model_.journal;
  journal.demand(near::current_heap == before.heap, "a heap changed without an allocation");
  journal.demand(near::rehome_count() == before.rehomes, "a re-homing without an allocation");
  journal.demand(near::spill_count() == before.spills, "a spill without an allocation");
  journal.demand(refills() == before.refills, "a refill without an allocation");
}

void Placement::check_refusal(const Before& before) {
  const Journal& journal = model_.journal;
  journal.demand(errno == ENOMEM, "a refusal without ENOMEM");
  journal.demand(was_refused(before), "refused though the system refused nothing");
  journal.demand(near::spill_count() == before.spills, "a spill was counted for a refusal");
  model_.journal.count(Event::refusal);
}

void Placement::check_placed(const Before& before, const void* block, unsigned node, bool strict) {
  const Journal& journal = model_.journal;
  journal.demand(near::current_heap == before.heap && near::rehome_count() == before.rehomes,
                 "a thread moved because it named a node", {node});
  model_.journal.count(Event::adoption, near::heap_totals().adoptions - before.adoptions);
  if (block == nullptr) {
    if (strict) model_.nodes[node].refused++;
    return check_refusal(before);
  }
  const near::Span& span = span_of_block(block);
  const unsigned taken = span.region->node();
  journal.demand(near_node_of(block) == near::topology.kernel_id[taken], "near_node_of is wrong");
  const uint64_t spills = near::spill_count() - before.spills;
  journal.demand(spills == (taken == node ? 0U : 1U), "a block of another node than was named",
                 {node, taken, spills});
  if (taken != node) {
    journal.demand(!strict, "a strict request was served by another node", {node, taken});
    journal.demand(was_refused(before), "a named node was passed by", {node, taken});
    model_.record_spill(node, taken);
  }
  if (span.kind == near::SpanKind::large) return;
  const near::Heap* owner = span.owner.load();
  journal.demand(owner->is_shared() && owner->home_only && owner->node() == taken,
                 "a named node's block of a heap that is not for that", {node, owner->id()});
}

void Placement::check_spill(const near::Span& span, unsigned home, const Before& before,
                            bool freed) {
  const unsigned node = span.region->node();
  model_.journal.demand(node != home, "a spill was counted for a block at home", {node});
  if (span.kind == near::SpanKind::blocks) spilled_[&span] = home;
  model_.record_spill(home, node);
  // What the call freed afterwards may have made room: a chunk that it emptied can be mapped anew.
  if (was_refused(before) || freed) return;
  const uint32_t slices = wanted_slices(span);
  for (const uint8_t nearer : near::topology.order[home]) {
    if (nearer == node) return;
    const bool room = has_room(nearer, span) || has_free_run(nearer, slices);
    model_.journal.demand(!room, "a spill past a node with room; home, taken, passed by",
                          {home, node, nearer});
  }
}

void Placement::check_block(VirtualThread& thread, const Before& before, const void* block,
                            size_t size, bool freed) {
  const Journal& journal = model_.journal;
  // A refused block may have been large: its number of slow paths is unknown anyway.
  const bool is_large = block == nullptr || span_of_block(block).kind == near::SpanKind::large;
  check_heap(thread, before, is_large);
  if (block == nullptr) return check_refusal(before);
  const uint64_t spills = near::spill_count() - before.spills;
  const near::Heap* mine = near::current_heap;
  const near::Span& span = span_of_block(block);
  if (!is_real(mine)) model_.journal.count(Event::late_block);
  const bool by_heap = is_real(mine) && span.kind == near::SpanKind::blocks;
  const unsigned home = by_heap ? mine->node() : thread.node();
  const unsigned node = span.region->node();
  journal.demand(near_node_of(block) == near::topology.kernel_id[node], "near_node_of is wrong");
  if (span.kind == near::SpanKind::blocks) {
    const near::Heap* owner = span.owner.load();
    journal.demand(owner == (is_real(mine) ? mine : near::fallback_heap(home)),
                   "a block of a span that is not the heap's", {home, node});
  }
  journal.demand(spills <= 1, "more than one spill for a block", {spills});
  if (spills == 1) return check_spill(span, home, before, freed);
  journal.demand(node == home || is_spilled(span, home), "a block away from home; home, node",
                 {home, node, size});
}

}  // namespace near_test

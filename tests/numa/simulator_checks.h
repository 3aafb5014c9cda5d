// The invariants that hold between two steps, when no thread is inside the allocator.
//
// After each step (every descriptor): a span lies in a region of the node that lists it, its owner
// and its remote list name the same heap, it is at home or was spilled to where it is, its slices
// are marked; it was not taken from a running thread; a heap is parked, or a thread's, or shared; a
// few blocks keep their content.
// At intervals (everything): each block of a span is exactly one of live, in its free list, in its
// remote list, uncarved; bins hold blocks of hot spans; inboxes hold the spans with remote blocks;
// the statistics are the model's.
// Thread-safety: the simulation, while no virtual thread is entered. The checks change nothing of
// the allocator's, so a run is the same however often all is checked.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "numa/simulator_model.h"
#include "numa/simulator_placement.h"

namespace near_test {

class Checks {
 public:
  Checks(Model& model, Placement& placement) : model_(model), placement_(placement) {}

  // Before a step of thread number `acting`.
  void begin_step(unsigned acting);
  void after_step();
  void everything();
  void record_state();

  // After a trim without refusals: nothing but spans with blocks is left.
  void expect_trimmed();

  // After the end of all threads and blocks, and a trim.
  void expect_nothing();

 private:
  using Blocks = std::vector<std::pair<const near::Span*, uint32_t>>;  // span and number of block

  void collect();
  void check_place(const near::Span& span, unsigned node);
  void check_binding(const void* address, unsigned node);
  void check_owner(const near::Span& span);
  void check_changes();
  void check_heaps();
  void check_some_blocks();
  Blocks live_blocks();
  void check_blocks(const near::Span& span, Blocks::const_iterator live, size_t count);
  void mark(const near::Span& span, const near::Block* block);
  void mark_uncarved(const near::Span& span);
  void check_bins(const near::Heap& heap);
  void check_cache(const near::Heap& heap);
  void check_inboxes();
  void check_statistics();
  void check_node_statistics(bool nothing_hidden);

  struct Owned {
    const near::Span* span;
    const near::Heap* owner;
  };

  Model& model_;
  Placement& placement_;
  std::vector<Owned> owned_;   // spans of classes, by address
  std::vector<Owned> before_;  // the same before the step
  std::vector<const near::Span*> large_;
  std::vector<const near::Heap*> running_;  // heaps of the threads that did not act
  uint64_t refusals_ = 0;                   // before the step, with calls that may be refused
  size_t next_block_ = 0;
  std::vector<uint8_t> seen_;  // of the span that is looked at: each of its blocks
};

}  // namespace near_test

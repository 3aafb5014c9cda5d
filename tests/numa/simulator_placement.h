// The rules of placement, as outcomes: on which node a block may lie when it is handed out, and
// which heap its thread has then.
//
//   - a thread gets a heap of the node it runs on; the heap follows the thread to another node as
//     Residence says, and stays behind for threads of its own node;
//   - a block lies in a span of the heap that hands it out, on the heap's node, unless the span was
//     spilled: taken from another node, counted, and only when no nearer node had room;
//   - a block of a node that the caller named lies there, unless the system refused memory there.
// Thread-safety: the simulation, while a virtual thread is entered.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "numa/simulator_model.h"

namespace near_test {

class Placement {
 public:
  explicit Placement(Model& model) : model_(model) {}

  // The state before an operation.
  struct Before {
    near::Heap* heap;
    uint64_t refills;
    uint64_t spills;
    uint64_t rehomes;
    uint64_t adoptions;
    uint64_t refusals;
  };
  static Before look();

  // The thread asked for `size` bytes and got `block`; null if it was refused. `freed`: something
  // was freed after the block was found.
  void check_block(VirtualThread& thread, const Before& before, const void* block, size_t size,
                   bool freed);

  // The thread asked for a block of `node`, which another may serve unless `strict`.
  void check_placed(const Before& before, const void* block, unsigned node, bool strict);

  // The thread's operation handed out no new block; `asked` if it tried to.
  void check_other(VirtualThread& thread, const Before& before, bool asked);

  // True if a heap of `home` may own this span of another node.
  bool is_spilled(const near::Span& span, unsigned home) const;

  // The span is at home again.
  void forget(const near::Span& span) { spilled_.erase(&span); }

 private:
  void check_heap(VirtualThread& thread, const Before& before, bool is_large);
  void follow(VirtualThread& thread, const Before& before, uint64_t slow, bool moved);
  void check_refusal(const Before& before);
  void check_spill(const near::Span& span, unsigned home, const Before& before, bool freed);

  Model& model_;
  std::unordered_map<const near::Span*, unsigned> spilled_;  // and the home of the heaps it serves
};

}  // namespace near_test

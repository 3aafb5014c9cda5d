#include "heap/give_back.h"

#include <sched.h>

#include "node/memory.h"
#include "platform/fence.h"

namespace near {
namespace {

alignas(64) constinit Atomic<bool> at_work{false};

// Calls visit(heap, magazines) for the heaps of `node` that have magazines.
template <typename Visit>
void for_each_magazines(unsigned node, Visit visit) {
  for (uint32_t id = 0; id < heap_count(); id++) {
    if (!is_heap_of(id, node)) continue;
    Heap& heap = *heap_by_id(id);
    if (Magazines* magazines = heap.magazines()) visit(heap, *magazines);
  }
}

// Closes the gates of the heaps whose magazines should be emptied. Returns whether there are any.
bool close_gates(bool everything, unsigned node) {
  bool any = false;
  for_each_magazines(node, [&](Heap& heap, Magazines& magazines) {
    if (!magazines.holds()) return;
    const bool idle = magazines.are_idle() && heap.is_idle();
    if (!everything && !idle) return heap.ask_to_look();
    magazines.gate().close();
    any = true;
  });
  return any;
}

// Empties the magazines behind closed gates, and opens the gates. `fenced`: the owners were made to
// see that the gates are closed.
void empty_and_open(bool fenced, unsigned node) {
  for_each_magazines(node, [&](const Heap&, Magazines& magazines) {
    Gate& gate = magazines.gate();
    if (!gate.is_closed()) return;
    if (fenced && !gate.is_owner_inside()) magazines.give_back_all();
    gate.open();
  });
}

// The kernel refused the fence: a filter of system calls was installed. Threads no longer use
// magazines, and give back what they have when they take a slow path.
void end_use() {
  magazines_in_use.value.store(false, kRelaxed);  // relaxed: a policy
  for_each_magazines(kEveryNode, [](Heap& heap, const Magazines& magazines) {
    if (magazines.holds()) heap.ask_to_look();
  });
}

// True if any thread may have blocks in its magazines, or may leave some in a depot, of any node.
// Asked before the depots are looked at: a thread that leaves blocks there and then has none is
// seen, here or there (PurgeMark). It reads no memory of a node whose threads use no magazines.
bool any_holds() {
  bool any = false;
  for (unsigned n = 0; n < topology.count; n++) {
    if (!depots[n].is_used()) continue;
    for_each_magazines(n, [&](const Heap&, const Magazines& each) { any |= each.holds(); });
  }
  return any;
}

// Gives back what no thread has asked for. True if the part still has magazines.
bool end_round(DepotPart& part) {
  bool left = false;
  for (unsigned c = 0; c < kClasses; c++) {
    while (Magazine* surplus = part.take_surplus(c)) {
      return_blocks(*surplus);
      part.leave_empty(*surplus);
    }
    left |= part.end_round(c);
  }
  return left;
}

bool end_round(Depot& depot) {
  bool left = false;
  for (unsigned i = 0; i < depot.part_count(); i++) left |= end_round(depot.part(i));
  return left;
}

}  // namespace

namespace {

// A thread that needs everything waits for another one's round; but not for ever, because a signal
// handler may have interrupted that round.
bool begin_work(bool everything) {
  for (int tries = everything ? 1000 : 1; tries > 0; tries--) {
    if (!at_work.exchange(true, kAcquire)) return true;  // pairs: giving-back
    if (tries > 1) sched_yield();
  }
  return false;
}

}  // namespace

bool give_back_magazines(bool everything, unsigned node) {
  if (!begin_work(everything)) return true;
  if (close_gates(everything, node)) {
    const bool fenced = heavy_fence(true);
    empty_and_open(fenced, node);
    if (!fenced) end_use();
  }
  bool left = uses_magazines() && any_holds();
  for (unsigned n = 0; n < topology.count; n++) {
    if (node != kEveryNode && node != n) continue;
    if (everything) end_round(depots[n]);
    left |= end_round(depots[n]);
  }
  at_work.store(false, kRelease);  // pairs: giving-back
  return left;
}

void forget_giving_back() { at_work.store(false, kRelaxed); }  // relaxed: one thread

}  // namespace near

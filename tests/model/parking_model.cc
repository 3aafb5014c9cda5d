// Model of a thread's end: it parks its heap (heap/registry.cc: park_heap) while others push to the
// heap's inbox, and another thread takes it (take_heap).
//
// This design never closes an inbox, so no push races with a close: heaps are never freed, a parked
// heap's inbox stays open, and spans that arrive wait there for the next owner of the heap, for an
// adopter or for the purge thread.
// Invariants: the next holder of the heap finds what was freed before, during or after the parking,
// and sees what the last thread wrote.
// Bound: one span of 4 live blocks; the ending thread frees 1 and parks, another frees 1, a third
// takes the heap if it is parked, frees 1, allocates 1 and parks it again, the purge thread flushes
// parked heaps, frees 1 as a program does and claims.
#include "little_heap.h"

namespace near::model {
namespace {

class Parking : public rl::test_suite<Parking, 4> {
 public:
  void before() {
    registry_.init({.reuse_at = 1 + choose(2), .medium = choose(2) == 0});
    heap().init_span(span_, kCapacity, choose(2) == 0);
  }

  void thread(unsigned index) {
    switch (index) {
      case 0:
        free(&heap(), 0);
        registry_.park_heap(heap());
        break;
      case 1:
        free(nullptr, 1);
        break;
      case 2:
        take_heap();
        break;
      default:
        registry_.flush_parked();
        free(nullptr, 3);
        registry_.claim_for_sleepers();
    }
  }

  void after() {
    registry_.flush_parked();
    expect(heap().inbox_empty(), "a span waits though the heap was drained");
    expect(heap().retired() == (held_ == 0 ? 1 : 0), "a complete span was not retired once");
    if (held_ == 0) return;
    expect(count_list(span_.local) + held_ == kCapacity, "a block is lost");
  }

 private:
  Heap& heap() { return registry_.heaps[0]; }

  void free(Heap* mine, uint32_t index) {
    span_.blocks[index].content = 1;
    registry_.release(mine, span_, &span_.blocks[index]);
  }

  void take_heap() {
    Heap* mine = registry_.take_heap();
    free(mine, 2);
    if (mine == nullptr) return;
    if (Block* block = mine->allocate()) {
      block->content = 1;
      held_ = 1;
    }
    registry_.park_heap(*mine);
  }

  Registry registry_;
  Span span_;
  uint32_t held_ = 0;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Parking>("parking", Random{1'000'000}),
};

const std::vector<Mutation> kMutations = {
    {"a heap is parked before it is drained"},
    {"a delivery is forgotten"},
    {"parking does not release", "mutex.h", "::unlock()", kRelease, kRelaxed},
    {"taking does not acquire", "mutex.h", "::lock()", kAcquire, kRelaxed},
};

}  // namespace near::model

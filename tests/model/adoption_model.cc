// Model of the adoption of a parked heap's span (heap/registry.cc: adopt_span) against remote
// frees, the last one among them, against a thread that takes the parked heap, against the purge
// thread, and against fork.
//
// Invariants: the span belongs to one heap, and deliveries go to that heap; a block ends in one
// place; the thread that then has the parked heap does not treat the span as its own. A thread that
// holds its own heap's lock waits for no other heap's, so fork can take all of them.
// Bound: one span of 4 blocks, 2 of them live, parked at first; a thread that runs out of blocks
// twice; a thread that frees a block; a thread that takes the heap if it is parked, frees the
// other block and parks the heap again; 1 pass of the purge thread, or a fork.
#include "little_heap.h"

namespace near::model {
namespace {

class Adoption : public rl::test_suite<Adoption, 4> {
 public:
  void before() {
    forks_ = choose(4) == 0;
    registry_.init({.reuse_at = 1, .medium = choose(2) == 0});
    parked().init_span(span_, kLive, choose(2) == 0);
    registry_.unpark_to_list(parked());
  }

  void thread(unsigned index) {
    switch (index) {
      case 0:
        for (int i = 0; i < 2; i++) allocate();
        break;
      case 1:
        free(nullptr, 0);
        break;
      case 2:
        take_parked_heap();
        break;
      default:
        if (forks_) return registry_.fork();
        registry_.flush_parked();
        registry_.claim_for_sleepers();
    }
  }

  void after() {
    registry_.flush_parked();
    {
      const LockGuard guard(adopter().lock);
      adopter().flush();
    }
    const uint32_t retired = parked().retired() + adopter().retired();
    expect(retired == (held_ == 0 ? 1 : 0), "a span without live blocks was not retired once");
    if (retired == 1) return;
    expect(count_list(*span_.list) + held_ == kCapacity, "a block is lost");
    expect(span_.frees.freed() + held_ == kCapacity, "a free block is not counted");
    expect(&registry_.heaps[span_.remote.owner()] == span_.owner.load(kRelaxed), "two owners");
  }

 private:
  static constexpr uint32_t kLive = 2;

  // Fork takes the locks in this order.
  Heap& parked() { return registry_.heaps[0]; }
  Heap& adopter() { return registry_.heaps[1]; }

  void allocate() {
    const bool waits = choose(2) == 0;
    Block* block =
        adopter().refill([=, this](Heap& heap) { return registry_.adopt_span(heap, waits); });
    if (block == nullptr) return;
    block->content = 1;
    held_++;
  }

  void free(Heap* mine, uint32_t index) {
    span_.blocks[index].content = 1;
    registry_.release(mine, span_, &span_.blocks[index]);
  }

  void take_parked_heap() {
    Heap* mine = registry_.take_heap();
    free(mine, 1);
    if (mine != nullptr) registry_.park_heap(*mine);
  }

  Registry registry_;
  Span span_;
  bool forks_ = false;
  uint32_t held_ = 0;  // held by the adopter's thread at its end
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Adoption>("adoption", Random{1'000'000}),
};

const std::vector<Mutation> kMutations = {
    {"the owner field follows when the heap is parked again"},
    {"a span is adopted though blocks are on their way"},
    {"an adoption does not lock the heap"},
    {"an adoption waits for the heap's lock"},
    {"a heap that is not locked is looked into"},
    {"a heap is listed before its span is taken"},
    {"the registry's lock is not taken"},
    {"a delivery is forgotten"},
};

}  // namespace near::model

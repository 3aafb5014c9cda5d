// Model of a span whose owner stops for ever: Heap::claim_for_sleeper against the owner's fast
// path, on_count and refill, and against remote frees.
//
// Invariants: a span is claimed (or retired by its owner) once, and never while a block is live;
// when everything was freed and counted, one last pass of the purge thread claims it, wherever the
// owner stopped; what the owner does after its last free does not touch the span of its next owner.
// Bound: one span of 4 blocks, of a small or a medium class, hot at first, 2 of them the owner's;
// at most 4 calls of the owner, of which some free two blocks at once, and which may stop inside
// each; 2 threads that free one block each; 2 passes of the purge thread, which gives a claimed
// span to another heap at once.
#include "little_heap.h"

namespace near::model {
namespace {

constexpr uint32_t kOwnersBlocks = 2;
constexpr unsigned kCalls = 4;

class SleepingOwner : public rl::test_suite<SleepingOwner, 4> {
 public:
  void before() {
    medium_ = choose(2) == 0;
    registry_.init({.reuse_at = 1 + choose(2), .medium = medium_});
    mine().init_span(span_, kCapacity, true);
    for (uint32_t i = 0; i < kOwnersBlocks; i++) held_[held_count_++] = &span_.blocks[i];
    sleep_.allow();
  }

  void thread(unsigned index) {
    switch (index) {
      case 0:
        for (unsigned i = 0; i < kCalls && !sleep_.falls(); i++) call();
        break;
      case 1:
      case 2:
        use(&span_.blocks[index + 1]);
        registry_.release(nullptr, span_, &span_.blocks[index + 1]);
        break;
      default:
        for (int i = 0; i < 2; i++) claim();
    }
  }

  void after() {
    claim();
    const bool complete = held_count_ == 0 && all_counted_ && !mine().is_hot(span_);
    expect(mine().retired() == (complete ? 1 : 0), "a complete span was not claimed once");
    if (complete || !all_counted_) return;
    const uint32_t free = count_list(*span_.list);
    expect(free + span_.remote.count() + held_count_ == kCapacity, "a block is lost");
    const bool counted = medium_ || !mine().is_hot(span_);
    expect(!counted || span_.frees.freed() == free, "a wrong count");
  }

 private:
  Heap& mine() { return registry_.heaps[0]; }
  Heap& other() { return registry_.heaps[1]; }

  static void use(Block* block) { block->content = 1; }

  // The owner's program allocates or frees.
  void call() {
    if (held_count_ == 0 || choose(3) == 0) {
      Block* block = mine().allocate();
      if (block == nullptr) return;
      use(block);
      held_[held_count_++] = block;
    } else if (held_count_ > 1 && choose(2) == 0) {
      release_batch();
    } else {
      Block* block = held_[--held_count_];
      use(block);
      all_counted_ = mine().release_local(span_, block, sleep_);
    }
  }

  // Frees two at once: the count may pass an event. (With all four, an owner could stop between its
  // last count and on_count, and no delivery would report the span.)
  void release_batch() {
    Block* last = held_[--held_count_];
    Block* first = held_[--held_count_];
    use(last);
    use(first);
    first->next = last;
    all_counted_ = mine().splice_local(span_, first, last, 2, sleep_);
  }

  // A claimed span is another heap's next span, of another class. Mirrors Heap::take_fresh.
  void claim() {
    if (registry_.claim_for_sleepers() == 0) return;
    const LockGuard guard(other().lock);
    expect(!span_.remote.look().is_open(), "a list is open though its span was given away");
    span_.size_class.store(Heap::kClass + 1, kRelaxed);
    span_.frees.set(kCapacity, kCapacity);
    span_.remote.open(other().id(), 0, 0);
    other().own(span_);
  }

  Registry registry_;
  Span span_;
  Sleep sleep_;
  Block* held_[kCapacity] = {};
  uint32_t held_count_ = 0;
  bool medium_ = false;
  bool all_counted_ = true;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<SleepingOwner>("sleeping owner", Random{1'000'000}),
};

const std::vector<Mutation> kMutations = {
    {"a free is counted without releasing its writes", "free_count.h", "::tick()", kRelease,
     kRelaxed},
    {"a batch is counted without releasing its writes", "free_count.h", "::tick(uint32_t)",
     kRelease, kRelaxed},
    {"the count is read without acquiring", "free_count.h", "::freed", kAcquire, kRelaxed},
    {"the count runs ahead of the list"},
    {"a batch is counted before it is spliced"},
    {"on_count does not look again under the lock"},
    {"a hot span is claimed"},
    {"a hot span is taken for empty after as many frees"},
    {"a claim does not take the lock"},
    {"a claim trusts the remote count"},
    {"spans that are not complete are not put back"},
    {"a delivery is forgotten"},
    {"the list of a retired span stays open"},
};

}  // namespace near::model

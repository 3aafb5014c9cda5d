// Model of a thread's exit in nalloc0 against frees of its blocks: the race that its author left
// open. A freer reads which stack the arena names, the owner exits, and the freer pushes the block
// on a stack without an owner. Here the heap outlives its thread, so the stack has an owner.
// Mirrors Heaps::take and park, and Coalescing::push and collect, on sync/inbox.h and
// sync/tagged_stack.h.
//
// Invariants: a block is collected once, by one thread at a time, with what its last user wrote;
// when all threads have ended the parked heap has it.
// Bound: 4 threads: the owner, which exits; two that free one block each; one that takes the heap
// if it is parked, and exits too.
#include "numbered_stack.h"
#include "runner.h"
#include "sync/inbox.h"

namespace near::model {
namespace {

constexpr uint32_t kBlocks = 2;
constexpr uint32_t kHeap = 1;  // the heap's number

Witness collected_late("blocks collected by the next thread");
Witness adopted("parked heaps taken");

struct Block {
  Plain<Block*> next;
  Plain<uint32_t> content;
};

struct Wayward {
  Inbox<Block, &Block::next> blocks;
};

class Exit : public rl::test_suite<Exit, 4> {
 public:
  void before() {
    host_.store(&of_heap_, kRelaxed);
    collected_ = 0;
    for (uint32_t i = 0; i < kBlocks; i++) blocks_[i].content = 0;
  }

  void thread(unsigned index) {
    switch (index) {
      case 0:
        exit();
        break;
      case 1:
      case 2:
        free(index - 1);
        break;
      default:
        if (take_parked()) {
          adopted.note();
          const uint32_t before = collected_;
          collect();
          if (collected_ != before) collected_late.note();
          exit();
        }
    }
  }

  void after() {
    expect(take_parked(), "the heap is lost");
    collect();
    expect(collected_ == kBlocks, "a block is lost");
  }

 private:
  // Coalescing::push on the stack that the arena names.
  void free(uint32_t index) {
    Wayward* host = host_.load(kAcquire);
    blocks_[index].content = index + 1;
    host->blocks.push(&blocks_[index]);
  }

  // Coalescing::collect.
  void collect() {
    collect(of_heap_);
    if (mutated("an exit gives its arenas stacks of their own")) collect(of_arena_);
  }
  void collect(Wayward& wayward) {
    Block* block = wayward.blocks.take_all();
    while (block != nullptr) {
      Block* next = block->next;
      expect(block->content == static_cast<uint32_t>(block - blocks_) + 1,
             "what the freeing thread wrote is not seen");
      block->content = 0;
      collected_ = collected_ + 1;
      block = next;
    }
  }

  // Heaps::park.
  void exit() {
    if (mutated("a heap is parked before it is collected")) park();
    collect();
    if (mutated("an exit gives its arenas stacks of their own")) {
      // As published: a thread's stack ends with the thread.
      host_.store(&of_arena_, kRelease);
      collect();
      of_heap_is_gone_ = true;
    }
    if (!mutated("a heap is parked before it is collected")) park();
  }
  void park() { parked_.push(kHeap); }
  bool take_parked() {
    if (of_heap_is_gone_) expect(of_heap_.blocks.empty(), "a push on the stack of nobody");
    return parked_.pop() == kHeap;
  }

  NumberedStack<kHeap> parked_;
  Wayward of_heap_;
  Wayward of_arena_;
  Atomic<Wayward*> host_{nullptr};
  Plain<uint32_t> collected_;
  Block blocks_[kBlocks];
  bool of_heap_is_gone_ = false;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Exit>("exit", Random{300'000}),
};

const std::vector<Mutation> kMutations = {
    {"an exit gives its arenas stacks of their own"},
    {"a heap is parked before it is collected"},
    {"parking does not release the heap", "tagged_stack.h", "::push", kRelease, kRelaxed},
    {"who takes a parked heap does not acquire it", "tagged_stack.h", "::pop", kAcquire, kRelaxed},
    {"a free does not release the block", "inbox.h", "push_chain", kSeqCst, kRelaxed},
    {"a collection does not acquire the blocks", "inbox.h", "take_all", kAcquire, kRelaxed},
};

}  // namespace near::model

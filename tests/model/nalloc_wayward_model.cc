// Model of a slab of nalloc (designs/nalloc/wayward.h): blocks that other threads free, the host
// that runs out of private ones, and the thread whose free completes the slab. Mirrors Heap::take,
// exhausted, put, filed_anew and steal of designs/nalloc/heap.cc, and push_wayward of nalloc.cc.
//
// Invariants: private + wayward + live = capacity; a slab that is completed is taken over once, by
// a thread that then holds it alone and that the host no longer reaches; the next holder of a block
// sees what the previous one wrote into it before freeing it.
// Bound: 3 threads, 3 blocks, of which the host has one; 3 allocations, whose blocks are freed by
// their thread or by another.
#include "designs/nalloc/wayward.h"
#include "runner.h"

namespace near::model {
namespace {

constexpr uint32_t kCapacity = 3;
constexpr uint32_t kNobody = 9;

Witness stolen("slabs taken over");
Witness given_up("slabs given up");
Witness regained("slabs regained");
Witness moved("popalls that found blocks");

struct Block {
  Plain<Block*> next;
  Plain<uint32_t> content;
};

struct Blocks {
  Block* first;
  Block* at(uint32_t index) const { return first + index; }
  uint32_t index_of(const Block* block) const { return static_cast<uint32_t>(block - first); }
};

struct Slab {
  design::nalloc::WaywardStack<Block> wayward;
  Plain<Block*> top;
  Plain<uint32_t> free;
  Plain<uint32_t> capacity;
  Plain<uint32_t> host;
  Plain<uint32_t> on_stack_of;
  Block blocks[kCapacity];
};

class Steal : public rl::test_suite<Steal, 3> {
 public:
  void before() {
    slab_.wayward.reset();
    slab_.host = 0;
    slab_.on_stack_of = 0;
    slab_.top = &slab_.blocks[0];
    slab_.blocks[0].next = nullptr;
    slab_.free = 1;
    slab_.capacity = kCapacity;
    for (Block& block : slab_.blocks) block.content = 1;
  }

  void thread(unsigned index) {
    if (index == 0) {
      for (int i = 0; i < 3; i++) allocate_and_free(0);
      return;
    }
    release(index, &slab_.blocks[index]);
    if (Block* block = mailbox_.exchange(nullptr, kAcquire)) release(index, block);
    if (slab_is_mine_[index]) allocate_and_free(index);
  }

  void after() {
    const uint32_t wayward = slab_.wayward.size();
    const uint32_t live = mailbox_.load(kAcquire) != nullptr ? 1 : 0;
    expect(slab_.free + wayward + live == kCapacity, "private + wayward + live != capacity");
    expect(wayward < kCapacity, "a slab that nobody reaches is left behind");
    const bool listed = slab_.on_stack_of != kNobody;
    expect(listed == (slab_.free > 0), "on the host's stack <=> it has private blocks");
    uint32_t count = 0;
    for (const Block* block = slab_.top; block != nullptr; block = block->next) count++;
    expect(count == slab_.free, "the private stack is not as long as it says");
  }

 private:
  void allocate_and_free(uint32_t me) {
    Block* block = take(me);
    if (block == nullptr) return;
    block->content = block->content + 1;
    if (choose(2) == 0) return release(me, block);
    Block* nothing = nullptr;
    if (!mailbox_.compare_exchange_strong(nothing, block, kRelease, kRelaxed)) release(me, block);
    if (mutated("a slab is given up after its last block was handed on")) exhausted(me);
  }

  // Heap::take.
  Block* take(uint32_t me) {
    if (reachable_by(me) && slab_.on_stack_of == me) {
      Block* block = slab_.top;
      slab_.top = block->next;
      slab_.free = slab_.free - 1;
      if (!mutated("a slab is given up after its last block was handed on")) exhausted(me);
      return block;
    }
    return nullptr;
  }

  // Heap::exhausted.
  void exhausted(uint32_t me) {
    if (slab_.free > 0) return;
    const auto chain = slab_.wayward.popall(Blocks{slab_.blocks});
    slab_.top = chain.first;
    slab_.free = chain.size;
    if (chain.size > 0) {
      moved.note();
      return;
    }
    slab_.on_stack_of = kNobody;
    reaches_[me] = false;
    given_up.note();
  }

  // Nalloc::deallocate, push_wayward.
  void release(uint32_t me, Block* block) {
    if (slab_.host == me) return put(me, block);
    const uint32_t capacity = slab_.capacity;
    uint32_t size = slab_.wayward.push(Blocks{slab_.blocks}, block).size;
    if (mutated("the number of wayward blocks is asked after the push")) {
      pause();
      size = slab_.wayward.size();
    }
    if (mutated("whether a slab is complete is asked before the push")) size--;
    const bool late = mutated("the capacity is read after the push");
    if (size == (late ? static_cast<uint32_t>(slab_.capacity) : capacity)) steal(me);
  }

  // Heap::put, filed_anew.
  void put(uint32_t me, Block* block) {
    block->next = slab_.top;
    slab_.top = block;
    slab_.free = slab_.free + 1;
    if (slab_.free != 1) return;
    slab_.on_stack_of = me;
    reaches_[me] = true;
    regained.note();
  }

  // Heap::steal.
  void steal(uint32_t me) {
    expect(slab_.free == 0 && slab_.on_stack_of == kNobody, "the host still reaches the slab");
    stolen.note();
    slab_.capacity = kCapacity;  // as if it were a clean page that becomes a slab
    slab_.host = me;
    slab_.on_stack_of = me;
    for (uint32_t i = 0; i < kCapacity; i++) {
      slab_.blocks[i].content = slab_.blocks[i].content + 1;
      slab_.blocks[i].next = i > 0 ? &slab_.blocks[i - 1] : nullptr;
    }
    const uint32_t kept = mutated("who completes a slab loses the block in hand") ? 1 : 0;
    slab_.top = &slab_.blocks[kCapacity - 1];
    slab_.free = kCapacity - kept;
    if (!mutated("a slab is taken over with its wayward blocks")) slab_.wayward.reset();
    slab_is_mine_[me] = true;
    reaches_[me] = true;
  }

  static void pause() { rl::ctx().sched(); }
  // Whether the thread's stack leads to the slab; if not, the thread must not even read it.
  bool reachable_by(uint32_t me) const { return reaches_[me]; }

  Slab slab_;
  Atomic<Block*> mailbox_{nullptr};
  bool reaches_[3] = {true, false, false};
  bool slab_is_mine_[3] = {};
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Steal>("steal", Random{600'000}),
};

const std::vector<Mutation> kMutations = {
    {"a push does not release the block", "wayward.h", "::push", kAcqRel, kAcquire},
    {"who completes a slab does not acquire it", "wayward.h", "::push", kAcqRel, kRelease},
    {"popall does not acquire the blocks", "wayward.h", "::popall", kAcquire, kRelaxed},
    {"the number of wayward blocks is asked after the push"},
    {"whether a slab is complete is asked before the push"},
    {"the capacity is read after the push"},
    {"a slab is given up after its last block was handed on"},
    {"a slab is taken over with its wayward blocks"},
    {"who completes a slab loses the block in hand"},
};

}  // namespace near::model

// Model of span/remote_list.h: pushes of blocks and chains from two threads against a third that
// takes.
//
// Invariants: each period in which the list is not empty is delivered exactly once; a take finds
// the blocks pushed since the last one, each once, linked from `first` to `last`; what a thread
// wrote into a block before its push is seen by the thread that takes it; a block that is pushed
// while it is the head is recognised.
// Bound: 3 threads, 3 blocks, or 5 in chains of two and one, 2 takes while pushes run and one
// after.
#include "runner.h"
#include "span/remote_list.h"

namespace near::model {
namespace {

constexpr uint32_t kOwner = 5;
constexpr uint32_t kNextOwner = 9;
constexpr uint32_t kNode = 3;
constexpr uint32_t kClass = 12;

struct Block {
  Plain<Block*> next;  // not encoded: no code in a model writes out of bounds
  Plain<uint32_t> content;

  void link_to(Block* block) { next = block; }
  void link_to_end() { next = nullptr; }
};

struct Blocks {
  Block* first;
  Block* at(uint32_t index) const { return first + index; }
  uint32_t index_of(const Block* block) const { return static_cast<uint32_t>(block - first); }
};

// Takes all that is in the list and looks at every block of it.
template <size_t kBlocks>
void take_and_look(RemoteList<Block>& list, Block (&blocks)[kBlocks], uint32_t (&taken)[kBlocks]) {
  const auto chain = list.take(Blocks{blocks});
  expect(chain.count > 0, "a delivery of nothing");
  const Block* last = nullptr;
  uint32_t count = 0;
  for (Block* block = chain.first; block != nullptr && count < kBlocks; block = block->next) {
    const uint32_t index = Blocks{blocks}.index_of(block);
    expect(block->content == index + 1, "what the freeing thread wrote is not seen");
    block->content = 0;
    taken[index]++;
    last = block;
    count++;
  }
  expect(count == chain.count, "the chain is not as long as it says");
  expect(last == chain.last, "`last` is not the end of the chain");
}

// A list whose owner takes only what was delivered, of so many blocks.
template <size_t kCount>
class Delivering {
 public:
  void before() { list_.open(kOwner, kNode, kClass); }

 protected:
  void take_if_delivered() {
    const uint32_t delivered = deliveries_.exchange(0, kAcquire);
    expect(delivered <= 1, "two deliveries of one period");
    if (delivered == 0 && !mutated("a list is taken that was not delivered")) return;
    take_and_look(list_, blocks_, taken_);
  }

  void expect_each_taken_once() {
    take_if_delivered();
    expect(list_.count() == 0, "a block is left behind");
    for (const uint32_t times : taken_) expect(times == 1, "a block was not taken once");
  }

  Block blocks_[kCount];
  RemoteList<Block> list_;
  Atomic<uint32_t> deliveries_;
  uint32_t taken_[kCount] = {};
};

class PushAndTake : public rl::test_suite<PushAndTake, 3>, public Delivering<3> {
 public:
  using Delivering::before;

  void thread(unsigned index) {
    if (index == 2) {
      for (int i = 0; i < 2; i++) take_if_delivered();
      return;
    }
    push(index);
    if (index == 0) push(2);
  }

  void after() {
    expect_each_taken_once();
    expect(list_.change_owner(kOwner, kNextOwner), "an empty list keeps its owner");
    expect(list_.owner() == kNextOwner, "the owner did not change");
  }

 private:
  void push(uint32_t index) {
    blocks_[index].content = index + 1;
    const auto pushed = push_block(&blocks_[index]);
    expect(pushed.owner == kOwner && pushed.node == kNode && !pushed.repeated && pushed.count > 0,
           "a wrong answer");
    if (pushed.first) deliveries_.fetch_add(1, kRelease);
  }

  RemoteList<Block>::Pushed push_block(Block* block) {
    if (!mutated("whether it is the first is asked after the push")) {
      return list_.push(Blocks{blocks_}, block);
    }
    auto pushed = list_.push(Blocks{blocks_}, block);
    pushed.first = list_.count() == 1;
    return pushed;
  }
};

// Chains of several blocks among single ones: the thread that finds the list empty stores the end
// of its chain, and the taken list links all chains. The owner takes while a stale `last_` of the
// previous period is still visible.
class PushChains : public rl::test_suite<PushChains, 3>, public Delivering<5> {
 public:
  using Delivering::before;

  void thread(unsigned index) {
    if (index == 2) {
      for (int i = 0; i < 2; i++) take_if_delivered();
      return;
    }
    push(2 * index, 2);
    if (index == 0) push(4, 1);
  }

  void after() { expect_each_taken_once(); }

 private:
  // Pushes `count` blocks from number `from` on, the last of them first.
  void push(uint32_t from, uint32_t count) {
    for (uint32_t i = from; i < from + count; i++) {
      blocks_[i].content = i + 1;
      if (i > from) blocks_[i].next = &blocks_[i - 1];
    }
    Block* first = &blocks_[from + count - 1];
    Block* last = mutated("the end of a chain is taken for its front") ? first : &blocks_[from];
    const uint32_t counted = mutated("a chain counts as one block") ? 1 : count;
    const auto pushed = list_.push_chain(Blocks{blocks_}, {first, last, counted}, list_.look());
    expect(pushed.owner == kOwner && pushed.node == kNode && !pushed.repeated &&
               pushed.count >= counted,
           "a wrong answer");
    if (pushed.first) deliveries_.fetch_add(1, kRelease);
  }
};

class RepeatedPush : public rl::test_suite<RepeatedPush, 2> {
 public:
  void before() { list_.open(kOwner, kNode, kClass); }

  void thread(unsigned index) {
    if (index == 1) {
      count_of_other_ = list_.push(Blocks{blocks_}, &blocks_[1]).count;
      return;
    }
    list_.push(Blocks{blocks_}, &blocks_[0]);
    blocks_[2].next = &blocks_[0];
    repeated_ =
        list_.push_chain(Blocks{blocks_}, {&blocks_[2], &blocks_[0], 2}, list_.look()).repeated;
  }

  void after() {
    expect(repeated_ || count_of_other_ == 2, "a block pushed twice in a row was not recognised");
    expect(list_.count() == (repeated_ ? 2 : 4), "a recognised push still changed the list");
  }

 private:
  Block blocks_[3];
  RemoteList<Block> list_;
  uint32_t count_of_other_ = 0;
  bool repeated_ = false;
};

// The word alone decides whether the owner changes or a block is delivered to the old owner.
class ChangeOwner : public rl::test_suite<ChangeOwner, 2> {
 public:
  void before() { list_.open(kOwner, kNode, kClass); }

  void thread(unsigned index) {
    if (index == 0) {
      const auto pushed = list_.push(Blocks{blocks_}, &blocks_[0]);
      expect(pushed.node == kNode, "another node");
      pushed_to_ = pushed.owner;
    } else {
      changed_ = change_owner();
    }
  }

  void after() {
    expect(changed_ == (pushed_to_ == kNextOwner),
           "the block went to one heap, the span to another");
    expect(list_.owner() == pushed_to_, "the owner changed under a block that is on its way");
    expect(list_.count() == 1, "the block is lost");
  }

 private:
  bool change_owner() {
    if (!mutated("the owner changes though blocks are on their way")) {
      return list_.change_owner(kOwner, kNextOwner);
    }
    list_.open(kNextOwner, kNode, kClass);
    return true;
  }

  Block blocks_[1];
  RemoteList<Block> list_;
  uint32_t pushed_to_ = 0;
  bool changed_ = false;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<RepeatedPush>("repeated push", Full{}),
    explore<ChangeOwner>("change of owner", Full{}),
    explore<PushAndTake>("push and take", Bounded{5}),
    explore<PushAndTake>("push and take", Random{400'000}),
    explore<PushChains>("push chains", Bounded{5}),
    explore<PushChains>("push chains", Random{400'000}),
};

const std::vector<Mutation> kMutations = {
    {"push does not release the block", "remote_list.h", "::push", kAcqRel, kAcquire},
    {"push does not acquire the link of the head", "remote_list.h", "::push", kAcqRel, kRelease},
    {"take does not acquire the blocks", "remote_list.h", "::take", kAcqRel, kRelease},
    {"take does not release `last`", "remote_list.h", "::take", kAcqRel, kAcquire},
    {"the delivery does not release `last`", "remote_list_model.cc", "::push", kRelease, kRelaxed},
    {"the end of a chain is taken for its front"},
    {"a chain counts as one block"},
    {"whether it is the first is asked after the push"},
    {"a list is taken that was not delivered"},
    {"the owner changes though blocks are on their way"},
};

}  // namespace near::model

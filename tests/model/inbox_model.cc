// Model of sync/inbox.h: a push and a push of a chain against a thread that empties.
//
// Invariants: every pushed item is taken exactly once, and the chain in its order; the taker sees
// what the pusher wrote into an item; an item may be pushed again once it was taken.
// Bound: 3 threads, 3 items, 2 emptyings while pushes run and one after; each item may come back
// once.
#include "runner.h"
#include "sync/inbox.h"

namespace near::model {
namespace {

constexpr uint32_t kItems = 3;

struct Item {
  Plain<Item*> next;
  Plain<uint32_t> content;
};

class PushAndTakeAll : public rl::test_suite<PushAndTakeAll, 3> {
 public:
  void thread(unsigned index) {
    if (index == 0) {
      items_[0].content = 1;
      inbox_.push(&items_[0]);
    } else if (index == 1) {
      for (const uint32_t i : {1, 2}) items_[i].content = 1;
      items_[1].next = &items_[2];
      inbox_.push_chain(&items_[1], &items_[2]);
    } else {
      take_all();
      take_all();
    }
  }

  void after() {
    while (!inbox_.empty()) take_all();
    for (uint32_t i = 0; i < kItems; i++) {
      expect(taken_[i] == 1 + again_[i], "an item was not taken once");
    }
  }

 private:
  // The first item of an emptying goes back in once, as an incomplete span does.
  void take_all() {
    const Item* before = nullptr;
    for (Item* item = inbox_.take_all(); item != nullptr;) {
      Item* next = item->next;
      expect(item->content == 1, "what the pusher wrote is not seen");
      expect(item != &items_[2] || before == &items_[1], "the chain was broken");
      const auto index = item - items_;
      taken_[index]++;
      if (before == nullptr && again_[index] == 0) {
        again_[index] = 1;
        inbox_.push(item);
        if (mutated("the link is read after the item was given away")) next = item->next;
      }
      before = item;
      item = next;
      if (mutated("an emptying forgets all but the first")) return;
    }
  }

  Inbox<Item, &Item::next> inbox_;
  Item items_[kItems];
  uint32_t taken_[kItems] = {};
  uint32_t again_[kItems] = {};
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<PushAndTakeAll>("push and take all", Bounded{5}),
    explore<PushAndTakeAll>("push and take all", Random{1'000'000}),
};

const std::vector<Mutation> kMutations = {
    {"push does not release the item", "inbox.h", "::push_chain", kSeqCst, kRelaxed},
    {"take does not acquire the items", "inbox.h", "::take_all", kAcquire, kRelaxed},
    {"an emptying forgets all but the first"},
    {"the link is read after the item was given away"},
};

}  // namespace near::model

// Model of a heap's magazines (heap/gate.h, sync/tagged_stack.h): the owner puts blocks that it
// freed into a magazine, leaves full ones in the depot and takes blocks from them, while the purge
// thread empties the magazine of an owner that it takes for idle, and the depot. Mirrors
// Magazines::put, take, renew, serve and give_back_all of heap/magazines.cc, Depot::leave and take
// of heap/depot.cc (which count, but decide nothing by it), and give_back_magazines of
// heap/give_back.cc.
//
// Invariants: a block is with one thread, in one magazine or back in its span; none is lost; a
// thread that gets a block sees what the thread that freed it wrote; the owner and the purge thread
// are not in the owner's magazines at once.
// Bound: 3 threads, 5 blocks, magazines of 2. The owner frees 4 blocks and takes up to 2; another
// heap's thread looks for a magazine in the depot up to 6 times; the purge thread makes up to 2
// rounds.
#include "heap/gate.h"
#include "runner.h"
#include "sync/tagged_stack.h"

namespace near::model {
namespace {

constexpr uint32_t kBlocks = 5;
constexpr uint32_t kMagazines = 4;
constexpr uint32_t kCapacity = 2;

Witness depot_used("magazines taken from the depot by another thread");
Witness emptied("magazines emptied by the purge thread");
Witness kept_out("times that the owner met a closed gate");
Witness owner_was_inside("times that the purge thread met the owner");
Witness served("blocks that the owner took from a magazine");
Witness surplus_returned("magazines of the depot returned by the purge thread");

struct Block {
  Plain<uint32_t> content;
  Atomic<uint32_t> holders;  // how many places have it; more than one is a fault
};

// Mirrors span/magazine.h: Magazine.
struct Magazine {
  Atomic<uint32_t> next;
  Plain<uint32_t> count;
  Plain<Block*> blocks[kCapacity];
};

class Waiting : public FencedSuite<Waiting> {
 public:
  void before() {
    for (Block& block : blocks_) {
      block.content = 1;
      block.holders.store(1, kRelaxed);
    }
    for (Magazine& magazine : magazines_) magazine.count = 0;
    for (uint32_t number = 1; number <= kMagazines; number++) empty_.push(Links{*this}, number);
    filling_ = 0;
    serving_ = 0;
    returned_.store(0, kRelaxed);
  }

  void thread(unsigned index) {
    if (index == 0) {
      own();
    } else if (index == 1) {
      // Makes it likely that there is one. It orders no memory.
      if (choose(2) == 0) {
        for (uint32_t steps = 0; steps < 100 && !left_; steps++) rl::ctx().sched();
      }
      for (uint32_t tries = 0; tries < 6 && !take_from_depot(); tries++) continue;
    } else {
      for (uint32_t rounds = choose(3); rounds > 0; rounds--) round(choose(2) == 0);
    }
  }

  void after() {
    uint32_t found = returned_.load(kRelaxed) + held_.load(kRelaxed);
    for (const uint32_t number :
         {static_cast<uint32_t>(filling_), static_cast<uint32_t>(serving_)}) {
      if (number != 0) found += at(number).count;
    }
    while (const uint32_t number = full_.pop(Links{*this})) found += at(number).count;
    expect(found == kBlocks, "a block is lost, or there twice");
  }

 private:
  struct Links {
    Waiting& suite;
    Atomic<uint32_t>& next(uint32_t number) const { return suite.at(number).next; }
  };

  Magazine& at(uint32_t number) { return magazines_[number - 1]; }

  // A place gets the block; a place loses it.
  void gain(Block& block) {
    expect(block.holders.fetch_add(1, kRelaxed) == 0, "a block is in two places");
  }
  void lose(Block& block) {
    expect(block.holders.fetch_add(~0u, kRelaxed) == 1, "a block is in two places");
  }

  // The program uses a block that it holds.
  void use(Block& block) { block.content = block.content + 1; }

  void return_block(Block& block) {  // deliver
    use(block);
    lose(block);
    gain(block);
    returned_.fetch_add(1, kRelaxed);
  }

  void return_blocks(Magazine& magazine) {
    while (magazine.count > 0) return_block(pop(magazine));
  }

  void push(Magazine& magazine, Block& block) {
    magazine.blocks[magazine.count] = &block;
    magazine.count = magazine.count + 1;
  }
  Block& pop(Magazine& magazine) {
    magazine.count = magazine.count - 1;
    return *magazine.blocks[magazine.count];
  }

  bool enter() {
    if (mutated("the owner does not look at the gate")) return true;
    if (gate_.enter()) return true;
    kept_out.note();
    return false;
  }
  void leave() { gate_.leave(); }

  // --- the owner ---

  void own() {
    for (uint32_t i = 0; i + 1 < kBlocks; i++) free(blocks_[i]);
    for (uint32_t i = choose(3); i > 0; i--) {
      if (Block* block = take()) {
        use(*block);
        held_.fetch_add(1, kRelaxed);
        served.note();
      }
    }
    held_.fetch_add(1, kRelaxed);  // the last block stays with the program
  }

  void free(Block& block) {
    use(block);
    lose(block);
    gain(block);
    if (!put(block)) return_block(block);
  }

  bool put(Block& block) {
    if (!enter()) return false;
    uint32_t number = filling_;
    if (number == 0 || at(number).count == kCapacity) number = renew();
    if (number != 0) push(at(number), block);
    leave();
    return number != 0;
  }

  uint32_t renew() {
    const uint32_t full = filling_;
    if (full != 0) {
      filling_ = mutated("a full magazine stays in its slot") ? full : 0;
      full_.push(Links{*this}, full);
      left_ = true;
    }
    const uint32_t empty = empty_.pop(Links{*this});
    if (!mutated("a full magazine stays in its slot") || full == 0) filling_ = empty;
    return filling_;
  }

  Block* take() {
    if (!enter()) return nullptr;
    uint32_t number = serving_;
    if (number == 0 || at(number).count == 0) number = serve();
    Block* block = number == 0 ? nullptr : &pop(at(number));
    leave();
    return block;
  }

  uint32_t serve() {
    const uint32_t empty = serving_;
    const uint32_t next = filling_;
    if (next != 0 && at(next).count * 2 >= kCapacity) {
      filling_ = 0;
      serving_ = next;
      filling_ = empty;
      return next;
    }
    const uint32_t full = full_.pop(Links{*this});
    if (full == 0) return 0;
    serving_ = full;
    if (empty != 0) empty_.push(Links{*this}, empty);
    return full;
  }

  // --- another heap's thread ---

  bool take_from_depot() {
    const uint32_t number = full_.pop(Links{*this});
    if (number == 0) return false;
    depot_used.note();
    Magazine& magazine = at(number);
    while (magazine.count > 0) {
      use(pop(magazine));
      held_.fetch_add(1, kRelaxed);
    }
    empty_.push(Links{*this}, number);
    return true;
  }

  // --- the purge thread ---

  void round(bool everything) {
    gate_.close();
    if (!mutated("the purge thread executes no fence")) heavy_fence(true);
    const bool inside = gate_.is_owner_inside();
    if (inside) owner_was_inside.note();
    if (!inside || mutated("the purge thread does not mind the owner")) {
      give_back(filling_);
      give_back(serving_);
    }
    gate_.open();
    if (!everything) return;
    while (const uint32_t number = full_.pop(Links{*this})) {
      return_blocks(at(number));
      empty_.push(Links{*this}, number);
      surplus_returned.note();
    }
  }

  void give_back(Plain<uint32_t>& slot) {
    const uint32_t number = slot;
    if (number == 0) return;
    slot = 0;
    if (at(number).count > 0) emptied.note();
    return_blocks(at(number));
    empty_.push(Links{*this}, number);
  }

  Gate gate_;
  Plain<uint32_t> filling_;  // numbers of magazines; 0: none
  Plain<uint32_t> serving_;
  TaggedStack full_;
  TaggedStack empty_;
  Magazine magazines_[kMagazines];
  Block blocks_[kBlocks];
  Atomic<uint32_t> returned_;
  Atomic<uint32_t> held_{0};
  bool left_ = false;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Waiting>("magazines", Random{300'000}),
};

const std::vector<Mutation> kMutations = {
    {"the owner does not look at the gate"},
    {"the purge thread executes no fence"},
    {"the purge thread does not mind the owner"},
    {"a full magazine stays in its slot"},
    {"the owner leaves without a release", "gate.h", "::leave()", kRelease, kRelaxed},
    {"the gate opens without a release", "gate.h", "::open()", kRelease, kRelaxed},
    {"the owner does not acquire the open gate", "gate.h", "::enter()", kAcquire, kRelaxed},
    {"the purge thread does not acquire", "gate.h", "::is_owner_inside()", kAcquire, kRelaxed},
    {"a full magazine is not released", "tagged_stack.h", "::push", kRelease, kRelaxed},
    {"a taken magazine is not acquired", "tagged_stack.h", "::pop", kAcquire, kRelaxed},
};

}  // namespace near::model

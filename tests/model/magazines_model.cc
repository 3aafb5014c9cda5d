// Model of a heap's magazines (heap/gate.h, sync/tagged_stack.h): the owner puts blocks that it
// freed into a magazine, leaves full ones in its part of the depot, takes blocks from those of all
// parts and keeps an empty one as a spare, while the purge thread makes the depot, and empties the
// magazines of an owner that it takes for idle, and the depot. Mirrors Magazines::put, take, renew,
// serve, take_empty, leave_empty and give_back_all of heap/magazines.cc, the functions of Depot in
// heap/depot.cc (which also count, but decide nothing by it), and give_back_magazines of
// heap/give_back.cc.
//
// Invariants: a magazine is in one stack of one part, or in one slot; a block is with one thread,
// in one magazine or back in its span; none is lost; a thread that gets a block sees what the
// thread that freed it wrote; the owner and the purge thread are not in the owner's magazines at
// once; a thread that uses magazines finds the depot's parts.
// Bound: 3 threads, 6 blocks, magazines of 2, 2 parts. The owner frees 5 blocks, takes up to 3 and
// frees some of these; another heap's thread leaves 1 block and looks for a magazine in the depot
// up to 6 times; the purge thread makes up to 2 rounds.
#include "heap/gate.h"
#include "runner.h"
#include "sync/tagged_stack.h"

namespace near::model {
namespace {

constexpr uint32_t kBlocks = 6;
constexpr uint32_t kMagazines = 4;
constexpr uint32_t kCapacity = 2;
constexpr uint32_t kParts = 2;

Witness depot_used("magazines taken from the depot by another thread");
Witness emptied("magazines emptied by the purge thread");
Witness kept_out("times that the owner met a closed gate");
Witness owner_was_inside("times that the purge thread met the owner");
Witness served("blocks that the owner took from a magazine");
Witness found_elsewhere("magazines taken from another thread's part");
Witness spare_used("times that the owner used its spare");
Witness spare_returned("spares that the purge thread put into the depot");
Witness not_yet("blocks freed before magazines were in use");
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

// Mirrors heap/depot.h: DepotPart.
struct Part {
  TaggedStack full;
  TaggedStack empty;
};

class Waiting : public FencedSuite<Waiting> {
 public:
  void before() {
    for (Block& block : blocks_) {
      block.content = 1;
      block.holders.store(1, kRelaxed);
    }
    for (Magazine& magazine : magazines_) magazine.count = 0;
    for (uint32_t number = 1; number <= kMagazines; number++) {
      parts_[kOwner].empty.push(Links{*this}, number);
    }
    filling_ = 0;
    serving_ = 0;
    spare_ = 0;
    returned_.store(0, kRelaxed);
    made_early_ = choose(4) != 0;
    if (made_early_) make_parts();
  }

  void thread(unsigned index) {
    if (index == 0) {
      own();
    } else if (index == 1) {
      await(left_);  // makes it likely that there is one
      const bool late = choose(2) == 0;
      if (!late) leave_last();
      for (uint32_t tries = 0; tries < 6 && !take_from_depot(); tries++) continue;
      if (!late) return;
      await(has_spare_);
      leave_last();
    } else {
      if (!made_early_) make_parts();
      await(has_spare_);
      for (uint32_t rounds = choose(3); rounds > 0; rounds--) round(choose(2) == 0);
    }
  }

  void after() {
    uint32_t found = returned_.load(kRelaxed) + held_.load(kRelaxed);
    for (const uint32_t number :
         {static_cast<uint32_t>(filling_), static_cast<uint32_t>(serving_)}) {
      if (number != 0) found += at(number).count;
    }
    for (Part& part : parts_) {
      while (const uint32_t number = part.full.pop(Links{*this})) found += at(number).count;
    }
    if (spare_ != 0) expect(at(spare_).count == 0, "the spare has blocks");
    expect(found == kBlocks, "a block is lost, or there twice");
  }

 private:
  struct Links {
    Waiting& suite;
    Atomic<uint32_t>& next(uint32_t number) const { return suite.at(number).next; }
  };

  // Perhaps lets other threads run until they say that they came that far. It orders no memory.
  static void await(const bool& reached) {
    if (choose(2) == 0) return;
    for (uint32_t steps = 0; steps < 100 && !reached; steps++) rl::ctx().sched();
  }

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

  // --- the depot ---

  void make_parts() {
    if (mutated("magazines are in use before there are parts")) in_use_.store(true, kRelease);
    made_ = &parts_[0];
    count_.store(kParts, kRelease);
    in_use_.store(true, kRelease);
  }

  bool uses_magazines() { return in_use_.load(kAcquire); }

  Part& part_of(uint32_t self) {
    const uint32_t count = count_.load(kAcquire);
    expect(count > 0, "a thread looks for parts that were not made");
    return made_[self % count];
  }

  void leave_full(uint32_t self, uint32_t number) { part_of(self).full.push(Links{*this}, number); }

  uint32_t take_full(uint32_t self) {
    const uint32_t count = count_.load(kAcquire);
    for (uint32_t i = 0; i < count; i++) {
      Part& part = made_[(self + i) % count];
      if (part.full.is_empty()) continue;
      const uint32_t number = part.full.pop(Links{*this});
      if (number != 0 && i > 0) found_elsewhere.note();
      if (number != 0) return number;
    }
    return 0;
  }

  uint32_t take_empty_of(uint32_t self) {
    const uint32_t count = count_.load(kAcquire);
    expect(count > 0, "a thread looks for parts that were not made");
    for (uint32_t i = 0; i < count; i++) {
      const uint32_t number = made_[(self + i) % count].empty.pop(Links{*this});
      if (number != 0) return number;
    }
    return 0;
  }

  void leave_empty_in(uint32_t self, uint32_t number) {
    part_of(self).empty.push(Links{*this}, number);
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
    Block* taken[3] = {};
    for (uint32_t i = choose(4); i > 0; i--) {
      taken[i - 1] = take();
      if (taken[i - 1] != nullptr) served.note();
    }
    for (Block* block : taken) {
      if (block == nullptr) continue;
      use(*block);
      if (choose(4) != 0) {
        free(*block);
      } else {
        held_.fetch_add(1, kRelaxed);
      }
    }
  }

  void free(Block& block) {
    use(block);
    lose(block);
    gain(block);
    const bool uses = uses_magazines();
    if (!uses) not_yet.note();
    if (!uses || !put(block)) return_block(block);
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
    if (full != 0 && choose(4) == 0) {  // the depot has no room
      return_blocks(at(full));
      return full;
    }
    if (full != 0) {
      filling_ = mutated("a full magazine stays in its slot") ? full : 0;
      leave_full(kOwner, full);
      left_ = true;
    }
    const uint32_t empty = take_empty();
    if (!mutated("a full magazine stays in its slot") || full == 0) filling_ = empty;
    return filling_;
  }

  uint32_t take_empty() {
    const uint32_t spare = spare_;
    if (spare == 0) return take_empty_of(kOwner);
    spare_used.note();
    if (!mutated("the spare stays when it is used")) spare_ = 0;
    return spare;
  }

  void leave_empty(uint32_t number) {
    const bool has_spare = spare_ != 0;
    if (!has_spare) spare_ = number;
    has_spare_ = true;
    if (has_spare || mutated("the spare is in the depot, too")) leave_empty_in(kOwner, number);
  }

  Block* take_ready() {
    if (!enter()) return nullptr;
    uint32_t number = filling_;
    if (number == 0 || at(number).count <= kCapacity / 2) number = serving_;
    const bool ready = number != 0 && at(number).count > 0;
    Block* block = ready ? &pop(at(number)) : nullptr;
    leave();
    return block;
  }

  Block* take() {
    if (Block* block = take_ready()) return block;
    if (!enter()) return nullptr;
    const bool ready = serve();
    leave();
    return ready ? take_ready() : nullptr;
  }

  bool serve() {
    const uint32_t empty = serving_;
    if (empty != 0 && at(empty).count > 0) return true;
    const uint32_t full = take_full(kOwner);
    if (full == 0) return false;
    serving_ = full;
    if (empty != 0) leave_empty(mutated("the new magazine becomes the spare") ? full : empty);
    return true;
  }

  // --- another heap's thread ---

  void leave_last() {
    Block& block = blocks_[kBlocks - 1];
    use(block);
    const uint32_t number = uses_magazines() ? take_empty_of(kOther) : 0;
    if (number == 0) return return_block(block);
    push(at(number), block);
    leave_full(kOther, number);
  }

  bool take_from_depot() {
    const uint32_t number = take_full(kOther);
    if (number == 0) return false;
    depot_used.note();
    Magazine& magazine = at(number);
    while (magazine.count > 0) {
      use(pop(magazine));
      held_.fetch_add(1, kRelaxed);
    }
    leave_empty_in(kOther, number);
    return true;
  }

  // --- the purge thread ---

  void round(bool everything) {
    gate_.close();
    if (!mutated("the purge thread executes no fence")) heavy_fence(true);
    const bool inside = gate_.is_owner_inside();
    if (inside) owner_was_inside.note();
    if (!inside || mutated("the purge thread does not mind the owner")) {
      if (spare_ != 0) spare_returned.note();
      give_back(spare_);
      give_back(filling_);
      give_back(serving_);
    }
    gate_.open();
    if (!everything) return;
    for (uint32_t i = 0; i < kParts; i++) {
      while (const uint32_t number = made_[i].full.pop(Links{*this})) {
        empty_into(i, number);
        surplus_returned.note();
      }
    }
  }

  void give_back(Plain<uint32_t>& slot) {
    const uint32_t number = slot;
    if (number == 0) return;
    if (!mutated("the purge thread leaves the magazine in its slot")) slot = 0;
    if (at(number).count > 0) emptied.note();
    empty_into(kOwner, number);
  }

  void empty_into(uint32_t part, uint32_t number) {
    const bool early = mutated("a magazine is in the depot before it is empty");
    if (early) leave_empty_in(part, number);
    return_blocks(at(number));
    if (!early) leave_empty_in(part, number);
  }

  static constexpr uint32_t kOwner = 0;  // the threads' parts
  static constexpr uint32_t kOther = 1;

  Gate gate_;
  Plain<uint32_t> filling_;  // numbers of magazines; 0: none
  Plain<uint32_t> serving_;
  Plain<uint32_t> spare_;
  Part parts_[kParts];
  Plain<Part*> made_;  // the parts, once they are made
  Atomic<uint32_t> count_{0};
  Atomic<bool> in_use_{false};
  Magazine magazines_[kMagazines];
  Block blocks_[kBlocks];
  Atomic<uint32_t> returned_;
  Atomic<uint32_t> held_{0};
  bool left_ = false;
  bool has_spare_ = false;
  bool made_early_ = false;
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
    {"the spare stays when it is used"},
    {"the spare is in the depot, too"},
    {"the new magazine becomes the spare"},
    {"the purge thread leaves the magazine in its slot"},
    {"a magazine is in the depot before it is empty"},
    {"magazines are in use before there are parts"},
    {"the use of magazines is not released", "magazines_model.cc", "::make_parts", kRelease,
     kRelaxed, "in_use_"},
    {"the use of magazines is not acquired", "magazines_model.cc", "::uses_magazines", kAcquire,
     kRelaxed},
    {"the parts are not released", "magazines_model.cc", "::make_parts", kRelease, kRelaxed,
     "count_"},
    {"the parts are not acquired", "magazines_model.cc", "::take_full", kAcquire, kRelaxed},
    {"the owner leaves without a release", "gate.h", "::leave()", kRelease, kRelaxed},
    {"the gate opens without a release", "gate.h", "::open()", kRelease, kRelaxed},
    {"the owner does not acquire the open gate", "gate.h", "::enter()", kAcquire, kRelaxed},
    {"the purge thread does not acquire", "gate.h", "::is_owner_inside()", kAcquire, kRelaxed},
    {"a full magazine is not released", "tagged_stack.h", "::push", kRelease, kRelaxed},
    {"a taken magazine is not acquired", "tagged_stack.h", "::pop", kAcquire, kRelaxed},
};

}  // namespace near::model

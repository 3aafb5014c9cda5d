// Model of the list of a cold span, on which the owner pushes without the lock while the purge
// thread gives free pages back: purge_behind_first and drop_ghost (span/span.cc) against
// FreeList::push, carve, Heap::take_from_cold and Heap::look_at_rest.
//
// Invariant: live + on the list + uncarved = all blocks, each in one place; a block that was given
// back is not written or read before it is carved again.
// Bound: 3 pages of 2 blocks, some of them live at first; 4 calls of the owner, which frees a
// block, or takes one under the lock; 2 looks of the purge thread.
#include "runner.h"
#include "sync/mutex.h"

namespace near::model {
namespace {

constexpr uint32_t kPages = 3;
constexpr uint32_t kOfPage = 2;
constexpr uint32_t kBlocks = kPages * kOfPage;
constexpr unsigned kCalls = 4;

Witness given_back("pages given back");
Witness ghost_dropped("ghosts dropped");
Witness given_back_late("pages given back after a push since the start");

struct Block {
  Plain<Block*> next;
  Plain<uint32_t> content;
};

class ColdList : public rl::test_suite<ColdList, 2> {
 public:
  void before() {
    head_.store(nullptr, kRelaxed);  // relaxed: no threads yet
    pushes_.store(0, kRelaxed);      // relaxed: as above
    for (uint32_t page = 0; page < kPages; page++) uncarved_[page] = false;
    ghost_ = nullptr;
    after_ghost_ = nullptr;
    for (uint32_t i = 0; i < kBlocks; i++) {
      blocks_[i].next = nullptr;
      blocks_[i].content = 1;
      if (choose(3) == 0) {
        held_[held_count_++] = i;
      } else {
        push(i);
      }
    }
    pushes_.store(0, kRelaxed);  // relaxed: as above
  }

  void thread(unsigned index) {
    if (index == 0) {
      for (unsigned i = 0; i < kCalls; i++) call();
    } else {
      for (int i = 0; i < 2; i++) look();
    }
  }

  void after() {
    bool seen[kBlocks] = {};
    uint32_t count = held_count_;
    for (uint32_t i = 0; i < held_count_; i++) seen[held_[i]] = true;
    Block* block = pass_ghost(head_.load(kRelaxed));  // relaxed: the threads have ended
    for (; block != nullptr && count <= kBlocks; block = pass_ghost(block->next), count++) {
      const uint32_t number = number_of(block);
      expect(!seen[number], "a block is in two places");
      expect(!uncarved_[number / kOfPage], "a block that was given back is on the list");
      seen[number] = true;
    }
    for (uint32_t page = 0; page < kPages; page++) count += uncarved_[page] ? kOfPage : 0;
    expect(count == kBlocks, "a block is lost");
  }

 private:
  uint32_t number_of(const Block* block) const { return static_cast<uint32_t>(block - blocks_); }
  uint32_t page_of(const Block* block) const { return number_of(block) / kOfPage; }

  // The owner's program frees a block or allocates one.
  void call() {
    if (held_count_ > 0 && choose(3) != 0) {
      const uint32_t number = held_[--held_count_];
      blocks_[number].content = 2;
      push(number);
    } else {
      take();
    }
  }

  // FreeList::push: the owner alone writes the head.
  void push(uint32_t number) {
    blocks_[number].next = head_.load(kRelaxed);  // relaxed: the owner wrote it
    head_.store(&blocks_[number],
                mutated("a push does not release its link") ? kRelaxed : kRelease);
    pushes_.store(pushes_.load(kRelaxed) + 1, kRelaxed);  // relaxed: a witness
  }

  // Heap::take_from_cold; and carve, if the list is empty.
  void take() {
    const LockGuard guard(lock_);
    if (!mutated("a block is popped before the ghost is dropped")) drop_ghost();
    Block* block = head_.load(kRelaxed);  // relaxed: the owner wrote it
    for (uint32_t page = 0; block == nullptr && page < kPages; page++) {
      if (!uncarved_[page]) continue;
      uncarved_[page] = false;
      push(page * kOfPage);
      push(page * kOfPage + 1);
      block = head_.load(kRelaxed);  // relaxed: as above
    }
    if (block == nullptr) return;
    head_.store(static_cast<Block*>(block->next), kRelaxed);  // relaxed: under the lock
    block->content = 3;
    held_[held_count_++] = number_of(block);
  }

  // span/span.h: drop_ghost.
  void drop_ghost() {
    if (ghost_ == nullptr) return;
    ghost_dropped.note();
    Block* last = nullptr;
    for (Block* at = head_.load(kRelaxed); at != ghost_; at = at->next) {  // relaxed: as above
      last = at;
    }
    Block* next = after_ghost_;
    if (last == nullptr) {
      head_.store(next, kRelaxed);  // relaxed: under the lock
    } else {
      last->next = next;
    }
    ghost_ = nullptr;
  }

  // Heap::look_at_rest.
  void look() {
    if (mutated("a look does not take the lock")) return purge_behind_first();
    const LockGuard guard(lock_);
    purge_behind_first();
  }

  // span/span.h: ListWalk. The block itself, or the one behind the ghost.
  Block* pass_ghost(Block* at) {
    if (at != nullptr && at == ghost_) return after_ghost_;
    return at;
  }

  void purge_behind_first() {
    Block* first = head_.load(mutated("the head is read without acquiring") ? kRelaxed : kAcquire);
    if (first == nullptr) return;
    uint32_t free[kPages] = {};
    for (uint32_t page = 0; page < kPages; page++) free[page] = uncarved_[page] ? kOfPage : 0;
    uint32_t walked = 0;
    for (Block* at = pass_ghost(first); at != nullptr && walked < kBlocks;
         at = pass_ghost(at->next), walked++) {
      free[page_of(at)]++;
    }
    bool marked[kPages] = {};
    for (uint32_t page = 0; page < kPages; page++) {
      const uint32_t least = mutated("a page with a live block is given back") ? 1 : kOfPage;
      marked[page] = free[page] >= least;
    }
    unlink(first, marked);
    for (uint32_t page = 0; page < kPages; page++) {
      if (marked[page]) give_back(page);
    }
  }

  void unlink(Block* first, const bool (&marked)[kPages]) {
    const bool becomes_ghost = marked[page_of(first)];
    Block* last = becomes_ghost ? nullptr : first;
    Block* after_ghost = nullptr;
    for (Block* at = pass_ghost(first); at != nullptr;) {
      Block* const next = pass_ghost(at->next);
      const bool stays =
          !marked[page_of(at)] || mutated("the list keeps blocks that are given back");
      if (at != first && stays) {
        if (last == nullptr) {
          after_ghost = at;
        } else {
          last->next = at;
        }
        last = at;
      }
      at = next;
    }
    if (last != nullptr) last->next = nullptr;
    if (becomes_ghost && mutated("the head is moved")) {
      head_.store(after_ghost, kRelease);
      return;
    }
    ghost_ = becomes_ghost && !mutated("the ghost is forgotten") ? first : nullptr;
    after_ghost_ = after_ghost;
  }

  // The system drops the page: its blocks are zero when they are next touched.
  void give_back(uint32_t page) {
    given_back.note();
    if (pushes_.load(kRelaxed) > 0) given_back_late.note();  // relaxed: a witness
    uncarved_[page] = true;
    for (uint32_t i = page * kOfPage; i < (page + 1) * kOfPage; i++) {
      blocks_[i].next = nullptr;
      blocks_[i].content = 0;
    }
  }

  Block blocks_[kBlocks];
  Atomic<Block*> head_;
  Atomic<uint32_t> pushes_;
  Plain<bool> uncarved_[kPages];
  Plain<Block*> ghost_;  // uncarved, but the list leads through it
  Plain<Block*> after_ghost_;
  uint32_t held_[kBlocks] = {};  // the owner's
  uint32_t held_count_ = 0;
  Mutex lock_{Rank::heap};
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<ColdList>("cold list", Random{1'000'000}),
};

const std::vector<Mutation> kMutations = {
    {"a push does not release its link"},
    {"the head is read without acquiring"},
    {"a page with a live block is given back"},
    {"the list keeps blocks that are given back"},
    {"the head is moved"},
    {"the ghost is forgotten"},
    {"a block is popped before the ghost is dropped"},
    {"a look does not take the lock"},
};

}  // namespace near::model

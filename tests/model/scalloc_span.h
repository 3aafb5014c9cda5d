// One span of scalloc in the frontend, for its models: the production free lists, epoch, set and
// life cycle, and around them the steps of designs/scalloc/{frontend,lab,span_pool}.cc in a few
// lines each. A function names the one it mirrors; a change of that one changes this one too.
//
// Invariants checked in every execution: a span enters the pool once in each life, when none of its
// blocks is live, and then no set contains it.
// Thread-safety: as in designs/scalloc/span.h.
#pragma once

#include <cstdint>

#include "designs/scalloc/life_cycle.h"
#include "designs/scalloc/local_free_list.h"
#include "designs/scalloc/remote_free_list.h"
#include "runner.h"

namespace near::model {

using design::scalloc::Epoch;
using design::scalloc::Reclaim;
using design::scalloc::State;

inline constexpr uint32_t kBlocks = 3;
inline constexpr uint32_t kLabs = 3;
inline constexpr uint32_t kClass = 1;
inline constexpr uint64_t kNobody = 0;

inline constexpr const char* kUnlockedMark = "a span is marked first and inserted afterwards";
inline constexpr const char* kAsPublished = "the epoch is read before the free, and once";

struct Block {
  Plain<Block*> next;
};

// Mirrors designs/scalloc/span.h: Span.
struct Span {
  design::scalloc::LocalFreeList<Block> local;
  design::scalloc::RemoteFreeList<Block> remote;
  Epoch epoch;
  Atomic<uint32_t> size_class;
  Atomic<uint64_t> owner;
  Span* next = nullptr;
  Span* prev = nullptr;
  bool is_linked = false;  // used by the published set below
  Block blocks[kBlocks];
};

// The production set; or, as a fault, one like that of listing 3, which sets the mark and changes
// the deque in two steps.
class Set {
 public:
  using Put = design::scalloc::ReusableSet<Span>::Put;

  void open(uint64_t owner) {
    owner_ = owner;
    set_.open(owner);
  }
  void close() { set_.close(); }

  Put put(uint64_t owner, Span& span, Epoch::Word old) {
    if (!mutated(kUnlockedMark)) return set_.put(owner, span, old);
    if (owner_ != owner) return Put::closed;
    if (!span.epoch.try_mark(State::reusable, old)) return Put::changed;
    const LockGuard guard(lock_);
    spans_.push_front(&span);
    span.is_linked = true;
    return Put::done;
  }

  bool try_free(Span& span, Epoch::Word old) {
    if (!mutated(kUnlockedMark)) return set_.try_free(span, old);
    if (!span.epoch.try_mark(State::free, old)) return false;
    const LockGuard guard(lock_);
    if (span.is_linked) spans_.remove(&span);
    span.is_linked = false;
    return true;
  }

  Span* take(State to) {
    if (!mutated(kUnlockedMark)) return set_.take(to);
    const LockGuard guard(lock_);
    Span* span = spans_.back();
    if (span == nullptr) return nullptr;
    spans_.remove(span);
    span->is_linked = false;
    span->epoch.try_mark(to, span->epoch.read());
    return span;
  }

  template <typename IsEmpty>
  Span* take_empty(IsEmpty is_empty) {
    return set_.take_empty(is_empty);
  }

 private:
  design::scalloc::ReusableSet<Span> set_;
  uint64_t owner_ = kNobody;
  Mutex lock_{design::kInnermostRank};
  List<Span> spans_;
};

// All LABs, as designs/scalloc/lab.h: Labs. LAB i belongs to thread i; its owner number is i + 1.
class Frontend {
 public:
  void open(int32_t reusable_at, Reclaim reclaim) {
    reusable_at_ = reusable_at;
    reclaim_ = reclaim;
    asymmetric_ = choose(2) == 0;
    for (uint32_t i = 0; i < kLabs; i++) {
      owners_[i].store(owner_of(i), kRelaxed);
      sets_[i].open(owner_of(i));
    }
  }

  static uint64_t owner_of(uint32_t lab) { return lab + 1; }

  bool is_terminated(uint64_t owner) const {
    return owners_[owner - 1].load(kAcquire) != owner;  // pairs: scalloc-lab-owner
  }
  void record_adoption() const { adopted().note(); }
  Set& set(uint64_t owner, uint32_t) const { return sets_[owner - 1]; }
  static int32_t blocks(uint32_t) { return kBlocks; }
  int32_t reusable_at(uint32_t) const { return reusable_at_; }

  // Before the threads run: a hot span of LAB `lab`, all blocks live.
  void start_life(Span& span, uint32_t lab) {
    span.local.reset(0);
    span.remote.reset();
    span.size_class.store(kClass, kRelaxed);
    span.owner.store(owner_of(lab), kRelaxed);
    span.epoch.mark_hot();
  }

  // frontend.cc: allocate_in, where it leaves the hot span.
  void leave_hot(Span& span, uint32_t lab) {
    if (mutated("who leaves a hot span does not look at it again")) {
      span.epoch.mark_floating();
    } else if (design::scalloc::leave_hot(*this, span, owner_of(lab), reclaim_)) {
      put_in_pool(span, lab);
    }
  }

  // frontend.h: free_local, and frontend.cc: free_of_another. Called by the thread of LAB `lab`.
  void free(Span& span, Block* block, uint32_t lab) {
    const bool is_local = span.owner.load(kRelaxed) == owner_of(lab);
    if (mutated(kAsPublished)) return free_as_published(span, block, lab, is_local);
    if (!is_local) {
      expect(design::scalloc::free_remote(span, block, asymmetric_),
             "a block is on the remote list already");
      return settle(span, lab);
    }
    if (span.epoch.is_hot_for_owner()) return span.local.push_hot(block);
    const int32_t event_at = reusable_at_ < static_cast<int32_t>(kBlocks) ? reusable_at_ : kBlocks;
    if (design::scalloc::free_cold(span, block, asymmetric_) >= event_at) settle(span, lab);
  }

  // frontend.cc: get_span, and allocate_in; then frees the block and leaves the span again.
  void use_reusable(uint32_t lab) {
    if (reclaim_ == Reclaim::allocation) drop_empty(lab);
    Span* span = sets_[lab].take(State::hot);
    if (span == nullptr) return;
    made_hot().note();
    use(*span, lab);
  }

  // lab.cc: terminate, of LAB `lab`, whose hot span is `hot` or null.
  void terminate(Span* hot, uint32_t lab) {
    sets_[lab].close();
    if (hot != nullptr) leave_hot(*hot, lab);
    if (!mutated("spans stay reusable when their thread ends")) {
      while (Span* span = sets_[lab].take(State::floating)) settle(*span, lab);
    }
    owners_[lab].store(kNobody, kRelease);  // pairs: scalloc-lab-owner
  }

  // After the threads: an empty span is in the pool, and in no set.
  void expect_free(const Span& span) {
    for (uint32_t i = 0; i < kLabs; i++) {
      if (reclaim_ == Reclaim::allocation) drop_empty(i);
      expect(sets_[i].take(State::floating) == nullptr, "a set keeps an empty span");
    }
    expect(in_pool_, "an empty span is lost");
    expect(Epoch::state_of(span.epoch.read()) == State::free, "a span in the pool is not free");
  }

 private:
  static Witness& adopted() {
    static Witness witness("spans adopted");
    return witness;
  }
  static Witness& made_hot() {
    static Witness witness("reusable spans made hot");
    return witness;
  }

  void settle(Span& span, uint32_t lab) {
    if (design::scalloc::settle(*this, span, owner_of(lab), reclaim_)) put_in_pool(span, lab);
  }

  void drop_empty(uint32_t lab) {
    const auto is_empty = [](const Span& span) {
      return design::scalloc::free_blocks(span) == static_cast<int32_t>(kBlocks);
    };
    while (Span* span = sets_[lab].take_empty(is_empty)) put_in_pool(*span, lab);
  }

  // span_pool.cc: put_in_pool; once, the thread that put it takes it out again and uses it.
  void put_in_pool(Span& span, uint32_t lab) {
    expect(!in_pool_, "a span is put in the pool twice");
    expect(design::scalloc::free_blocks(span) == static_cast<int32_t>(kBlocks),
           "a span with a live block is put in the pool");
    expect(!span.is_linked && span.next == nullptr && span.prev == nullptr,
           "a span in the pool is in a set");
    in_pool_ = true;
    if (lives_++ > 0 || owners_[lab].load(kRelaxed) == kNobody || choose(2) == 0) return;
    in_pool_ = false;
    start_life(span, lab);
    for (Block& block : span.blocks) span.local.push_hot(&block);
    use(span, lab);
  }

  // A hot span of the calling thread.
  void use(Span& span, uint32_t lab) {
    if (span.local.empty()) {
      const auto chain = span.remote.take_all();
      expect(chain.blocks > 0, "a reusable span without a free block");
      span.local.refill(chain.first, chain.blocks);
    }
    span.local.push_hot(span.local.pop());
    leave_hot(span, lab);
  }

  // Listing 3: the epoch read before a free decides what the free does next.
  void free_as_published(Span& span, Block* block, uint32_t lab, bool is_local) {
    const Epoch::Word old = span.epoch.read();
    const uint64_t owner = span.owner.load(kAcquire);
    if (!is_local) {
      span.remote.push(block);
    } else if (span.epoch.is_hot_for_owner()) {
      span.local.push_hot(block);
    } else {
      span.local.push_cold(block);
    }
    design::scalloc::adopt_orphan(*this, span, owner_of(lab));
    const int32_t free = design::scalloc::free_blocks(span);
    if (Epoch::state_of(old) == State::hot) return;
    if (free == static_cast<int32_t>(kBlocks)) {
      const bool marked = Epoch::state_of(old) == State::reusable
                              ? sets_[owner - 1].try_free(span, old)
                              : span.epoch.try_mark(State::free, old);
      if (marked) put_in_pool(span, lab);
    } else if (free >= reusable_at_ && Epoch::state_of(old) == State::floating) {
      sets_[owner - 1].put(owner, span, old);
    }
  }

  int32_t reusable_at_ = 0;
  Reclaim reclaim_ = Reclaim::free;
  bool asymmetric_ = false;
  Atomic<uint64_t> owners_[kLabs];
  mutable Set sets_[kLabs];
  bool in_pool_ = false;
  uint32_t lives_ = 0;
};

}  // namespace near::model

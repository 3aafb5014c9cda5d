// A heap of one size class and one span, for the models whose protocol is more than one header: the
// production lists, counts, inboxes and mutexes, and around them the steps of heap/heap.cc,
// heap/registry.cc and front/slow.cc in a few lines each. A function names the one it mirrors; a
// change of that one changes this one too.
//
// Invariants checked in every execution: a span is retired once, when none of its blocks is live,
// and then no other thread touches it; a span in a heap's inbox belongs to that heap.
// Thread-safety: as in heap/heap.h.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "base/free_count.h"
#include "runner.h"
#include "span/remote_list.h"
#include "sync/inbox.h"
#include "sync/mutex.h"

namespace near::model {

class Heap;

inline constexpr uint32_t kCapacity = 4;
inline constexpr uint32_t kHeaps = 2;

struct Block {
  Plain<Block*> next;       // not encoded: no code in a model writes out of bounds
  Plain<uint32_t> content;  // the program's

  void link_to(Block* block) { next = block; }
  void link_to_end() { next = nullptr; }
};

// Mirrors span/layout.h: Span.
struct Span {
  Atomic<Heap*> owner;
  Plain<Plain<Block*>*> list;
  Plain<Block*> local;
  FreeCount frees;
  Atomic<uint32_t> size_class;  // on_count reads this and `idle` before it has the lock
  Atomic<bool> idle;
  Plain<bool> reusable;
  RemoteList<Block> remote;
  Plain<Span*> pending_next;
  Block blocks[kCapacity];

  Block* at(uint32_t index) const { return const_cast<Block*>(blocks) + index; }
  uint32_t index_of(const Block* block) const { return static_cast<uint32_t>(block - blocks); }
};

inline uint32_t count_list(const Block* block) {
  uint32_t count = 0;
  for (; block != nullptr && count <= kCapacity; block = block->next) count++;
  return count;
}

// Decides where a thread stops for ever: any point at which it asks may be the one.
class Sleep {
 public:
  bool falls() { return asleep_ = asleep_ || (may_ && choose(6) == 0); }
  void allow() { may_ = true; }

 private:
  bool may_ = false;
  bool asleep_ = false;
};

// What a heap needs to know about its class.
struct Shape {
  uint32_t reuse_at;
  bool medium;  // the free blocks of a hot span are counted, too
};

class Heap {
 public:
  static constexpr uint32_t kClass = 1;

  void init(uint32_t id, Shape shape) {
    id_ = id;
    shape_ = shape;
    bin_ = nullptr;
    hot_ = nullptr;
    reusable_ = nullptr;
    retired_ = 0;
    next_parked = nullptr;
    offers = false;
  }

  // Before the threads run: makes a span of this heap whose blocks from number `live` on are free.
  void init_span(Span& span, uint32_t live, bool hot) {
    span.size_class.store(kClass, kRelaxed);
    span.idle.store(false, kRelaxed);
    span.reusable = false;
    span.local = nullptr;
    for (uint32_t i = 0; i < kCapacity; i++) {
      span.blocks[i].content = 1;
      if (i < live) continue;
      span.blocks[i].next = static_cast<Block*>(span.local);
      span.local = &span.blocks[i];
    }
    span.remote.open(id_, 0, 0);
    own(span);
    span.frees.set(kCapacity - live, kCapacity);
    if (hot) {
      heat(span);
    } else {
      settle(span, kCapacity - live);
    }
  }

  // Heap::refill, and what it calls: take_locked, make_ready, find_span. `adopt` is adopt_span, or
  // reports that there is no span to adopt.
  template <typename Adopt>
  Block* refill(Adopt adopt) {
    const LockGuard guard(lock);
    if (!inbox_.empty()) drain();
    if (bin_ == nullptr && !make_ready(adopt)) return nullptr;
    return pop();
  }

  // front/front.h: allocate, and front/slow.cc: allocate_slow.
  Block* allocate() {
    if (bin_ == nullptr) return refill([](Heap&) { return static_cast<Span*>(nullptr); });
    return pop();
  }

  // front/front.h: release, for an own span. False if the thread stops before it has counted.
  bool release_local(Span& span, Block* block, Sleep& sleep) {
    const bool early = mutated("the count runs ahead of the list") && span.frees.tick();
    Plain<Block*>* list = span.list;
    block->next = static_cast<Block*>(*list);
    *list = block;
    if (sleep.falls()) return false;
    const bool reached = mutated("the count runs ahead of the list") ? early : span.frees.tick();
    if (reached && !sleep.falls()) on_count(span);
    return true;
  }

  // front/batch.cc: splice_local, for blocks linked from `first` to `last`; false as above.
  bool splice_local(Span& span, Block* first, Block* last, uint32_t count, Sleep& sleep) {
    const bool early = mutated("a batch is counted before it is spliced");
    bool reached = early && span.frees.tick(count);
    last->next = static_cast<Block*>(*span.list);
    *span.list = first;
    if (sleep.falls()) return false;
    reached = early ? reached : span.frees.tick(count);
    if (reached && !sleep.falls()) on_count(span);
    return true;
  }

  // Heap::on_count.
  void on_count(Span& span) {
    if (span.idle.load(kRelaxed)) return;
    const uint32_t size_class = span.size_class.load(kRelaxed);
    const LockGuard guard(lock);
    if (!mutated("on_count does not look again under the lock") &&
        (span.owner.load(kRelaxed) != this || span.frees.remaining() != 0)) {
      return;
    }
    if (!shape_.medium && size_class == kClass && is_hot(span)) return look_at_hot(span);
    settle(span, span.frees.freed());
  }

  // Heap::receive.
  void receive(Span* span) { inbox_.push(span); }

  // Heap::drain.
  void drain() {
    for (Span* span = inbox_.take_all(); span != nullptr;) {
      Span* next = span->pending_next;
      collect_remote(*span);
      span = next;
    }
  }

  // Heap::flush.
  void flush() {
    drain();
    if (hot_ != nullptr) cool_hot(count_list(bin_));
  }

  // Heap::claim_for_sleeper.
  uint32_t claim_for_sleeper() {
    uint32_t claimed = 0;
    Span* kept = nullptr;
    Span* last_kept = nullptr;
    for (Span* span = inbox_.take_all(); span != nullptr;) {
      Span* next = span->pending_next;
      if (may_claim(*span)) {
        claim(*span);
        claimed++;
      } else if (!mutated("spans that are not complete are not put back")) {
        span->pending_next = kept;
        kept = span;
        if (last_kept == nullptr) last_kept = span;
      }
      span = next;
    }
    if (kept != nullptr) inbox_.push_chain(kept, last_kept);
    return claimed;
  }

  // Heap::release_span. Left out are the cache of empty spans (a span retired here is gone) and
  // adopters that take only spans of their own node.
  Span* release_span(Heap& adopter) {
    if (reusable_ == nullptr && bin_ != nullptr) cool_hot(count_list(bin_));
    Span* span = reusable_;
    if (span == nullptr) return nullptr;
    if (mutated("a span is adopted though blocks are on their way")) {
      span->remote.open(adopter.id_, 0, 0);
    } else if (!span->remote.change_owner(id_, adopter.id_)) {
      return nullptr;
    }
    if (!mutated("the owner field follows when the heap is parked again")) {
      span->owner.store(&adopter, kRelaxed);
    }
    unfile(*span);
    return span;
  }

  // Heap::own.
  void own(Span& span) {
    span.list = &span.local;
    span.owner.store(this, kRelaxed);
  }

  bool has_blocks() const { return reusable_ != nullptr || bin_ != nullptr; }
  bool inbox_empty() const { return inbox_.empty(); }
  bool is_hot(const Span& span) const { return hot_ == &span; }
  uint32_t retired() const { return retired_; }
  uint32_t id() const { return id_; }

  Mutex lock{Rank::heap};
  Plain<Heap*> next_parked;  // guard of both: the registry's lock
  Plain<bool> offers;        // whether it had blocks when it was parked

 private:
  Block* pop() {
    Block* block = bin_;
    bin_ = static_cast<Block*>(block->next);
    if (shape_.medium) hot_->frees.untick();
    return block;
  }

  template <typename Adopt>
  bool make_ready(Adopt adopt) {
    if (hot_ != nullptr) cool_hot(0);
    Span* span = reusable_;
    if (span != nullptr) {
      unfile(*span);
    } else {
      span = adopt(*this);
      if (span == nullptr) return false;
      own(*span);
    }
    heat(*span);
    return true;
  }

  bool may_claim(const Span& span) const {
    if (is_hot(span) && !mutated("a hot span is claimed")) return false;
    if (mutated("a claim trusts the remote count")) return span.remote.count() >= kCapacity / 2;
    return span.frees.freed() + span.remote.count() == kCapacity;
  }

  void heat(Span& span) {
    hot_ = &span;
    bin_ = static_cast<Block*>(span.local);
    span.local = nullptr;
    span.list = &bin_;
    if (shape_.medium) {
      span.frees.set(span.frees.freed(), kCapacity);
    } else {
      span.frees.await(static_cast<uint32_t>(max_of(kCapacity - span.frees.freed(), 1)));
    }
  }

  // Heap::look_at_hot.
  void look_at_hot(Span& span) {
    const uint32_t free = count_list(bin_);
    if (free == kCapacity || mutated("a hot span is taken for empty after as many frees")) {
      cool_hot(kCapacity);
    } else {
      span.frees.await(kCapacity - free);
    }
  }

  void cool_hot(uint32_t freed) {
    Span& span = *hot_;
    hot_ = nullptr;
    span.local = static_cast<Block*>(bin_);
    bin_ = nullptr;
    span.list = &span.local;
    span.idle.store(false, kRelaxed);
    settle(span, freed);
  }

  // Heap::claim: with the lock, without the owner's rights.
  void claim(Span& span) {
    take_remote(span);
    unfile(span);
    span.frees.set(kCapacity, kCapacity);
    retire(span);
  }

  void collect_remote(Span& span) {
    const uint32_t count = take_remote(span);
    if (is_hot(span) && !shape_.medium) return;
    settle(span, span.frees.freed() + count);
  }

  // Heap::take_remote.
  uint32_t take_remote(Span& span) {
    expect(span.owner.load(kRelaxed) == this && span.remote.owner() == id_,
           "a span was delivered to a heap that does not own it");
    const auto chain = span.remote.take(span);
    expect(chain.count > 0, "a span without remote frees was delivered");
    chain.last->next = static_cast<Block*>(*span.list);
    *span.list = chain.first;
    return chain.count;
  }

  // Heap::settle. A hot span without live blocks counts among the few that may stay.
  void settle(Span& span, uint32_t freed) {
    expect(freed <= kCapacity, "more free blocks than blocks");
    if (is_hot(span)) {
      span.frees.set(freed, kCapacity);
      if (freed == kCapacity) span.idle.store(true, kRelaxed);
      return;
    }
    if (freed == kCapacity) {
      unfile(span);
      span.frees.set(freed, freed);
      retire(span);
      return;
    }
    if (freed >= shape_.reuse_at) {
      span.reusable = true;
      reusable_ = &span;
    }
    span.frees.set(freed, span.reusable ? kCapacity : shape_.reuse_at);
  }

  void unfile(Span& span) {
    if (span.reusable) reusable_ = nullptr;
    span.reusable = false;
  }

  // Heap::retire. The next user of the memory writes to all of it.
  void retire(Span& span) {
    expect(span.owner.load(kRelaxed) == this, "a span was retired by a heap that does not own it");
    expect(span.remote.count() == 0, "a span was retired with blocks on their way");
    expect(count_list(span.local) == kCapacity, "a span was retired with live blocks");
    for (Block& block : span.blocks) block.content = 0;
    if (!mutated("the list of a retired span stays open")) span.remote.close();
    span.owner.store(nullptr, kRelaxed);
    retired_ = retired_ + 1;
  }

  Plain<Block*> bin_;
  Plain<Span*> hot_;
  Plain<Span*> reusable_;
  Plain<uint32_t> retired_;  // guard: lock
  Inbox<Span, &Span::pending_next> inbox_;
  uint32_t id_ = 0;
  Shape shape_ = {};
};

// The heaps by number, and those without a thread. Mirrors heap/registry.cc, for one node.
class Registry {
 public:
  void init(Shape shape) {
    for (uint32_t i = 0; i < kHeaps; i++) heaps[i].init(i, shape);
    parked_ = nullptr;
  }

  // take_heap, except that it makes no heaps.
  Heap* take_heap() {
    const LockGuard guard(lock_);
    return pop_parked();
  }

  void park_heap(Heap& heap) {
    const LockGuard heap_guard(heap.lock);
    if (mutated("a heap is parked before it is drained")) unpark_to_list(heap);
    heap.drain();
    if (!mutated("a heap is parked before it is drained")) unpark_to_list(heap);
  }

  // `waits`: for the registry's lock.
  Span* adopt_span(Heap& adopter, bool waits = true) {
    Heap* parked = take_with_blocks(waits);
    if (parked == nullptr) return nullptr;
    parked->drain();
    if (mutated("a heap is listed before its span is taken")) unpark_to_list(*parked);
    Span* span = parked->release_span(adopter);
    if (!mutated("a heap is listed before its span is taken")) unpark_to_list(*parked);
    if (!mutated("an adoption does not lock the heap")) parked->lock.unlock();
    return span;
  }

  // visit_parked_heaps, as clean_heaps calls it: flushes what is parked.
  void flush_parked() {
    Heap* heap = take_heap();
    if (heap == nullptr) return;
    const LockGuard guard(heap->lock);
    heap->flush();
    unpark_to_list(*heap);
  }

  // front/fork.cc: takes all locks, the heaps' first.
  void fork() {
    for (Heap& heap : heaps) heap.lock.lock_for_fork();
    lock_.lock_for_fork();
    lock_.unlock_for_fork();
    for (uint32_t i = kHeaps; i-- > 0;) heaps[i].lock.unlock_for_fork();
  }

  // The second half of clean_heaps. Returns how many spans were claimed.
  uint32_t claim_for_sleepers() {
    uint32_t claimed = 0;
    for (Heap& heap : heaps) {
      if (mutated("a claim does not take the lock")) claimed += heap.claim_for_sleeper();
      const LockGuard guard(heap.lock);
      claimed += heap.claim_for_sleeper();
    }
    return claimed;
  }

  // front/front.h and front/slow.cc: release, of a block of `span`, by the thread of `mine`.
  void release(Heap* mine, Span& span, Block* block) {
    if (mine != nullptr && span.owner.load(kRelaxed) == mine) {
      Sleep awake;
      mine->release_local(span, block, awake);
      return;
    }
    const auto seen = span.remote.look();
    expect(seen.is_open(), "a live block is of no span");
    const auto pushed = span.remote.push_chain(span, {block, block, 1}, seen);
    expect(!pushed.repeated, "a first free was taken for a second one");
    if (!pushed.first || mutated("a delivery is forgotten")) return;
    heaps[pushed.owner].receive(&span);
  }

  // list_parked, by a thread that holds the heap's lock and the owner's rights.
  void unpark_to_list(Heap& heap) {
    const bool offers = heap.has_blocks();
    const LockGuard guard(lock_);
    heap.offers = offers;
    heap.next_parked = static_cast<Heap*>(parked_);
    parked_ = &heap;
  }

  Heap heaps[kHeaps];

 private:
  Heap* pop_parked() {
    Heap* heap = parked_;
    if (heap == nullptr) return nullptr;
    parked_ = static_cast<Heap*>(heap->next_parked);
    heap->next_parked = nullptr;
    return heap;
  }

  Heap* take_with_blocks(bool waits) {
    if (waits) {
      lock_.lock();
    } else if (!lock_.try_lock() && !mutated("the registry's lock is not taken")) {
      return nullptr;
    }
    Heap* heap = take_offering();
    lock_.unlock();
    return heap;
  }

  // Looks at the first parked heap alone.
  Heap* take_offering() {
    Heap* heap = parked_;
    if (heap == nullptr) return nullptr;
    const bool looks_inside = mutated("a heap that is not locked is looked into");
    const bool offers = looks_inside ? heap->has_blocks() : static_cast<bool>(heap->offers);
    if (!offers && heap->inbox_empty()) return nullptr;
    if (mutated("an adoption does not lock the heap")) return pop_parked();
    if (mutated("an adoption waits for the heap's lock")) {
      heap->lock.lock();
      return pop_parked();
    }
    return heap->lock.try_lock() ? pop_parked() : nullptr;
  }

  Mutex lock_{Rank::registry};
  Plain<Heap*> parked_;
};

}  // namespace near::model

// The blocks of one span that were freed by threads that do not own it, and all that such a thread
// has to know of the span, in one 64-bit word: a thread on another node looks there once.
//
//   word = { size class + 1 : 8 | node : 8 | owner : 16 | count : 16 | head : 16 }
//   0: the list is closed, the slice begins no span of a class. Class and node are constant while
//   blocks live. head: index of the block pushed last, meaningless if count == 0
//
// Invariant: count blocks hang from head by their links; count > 0 <=> the span is in (or on its
// way to) its owner's inbox. So the push that finds count == 0 delivers the span, once, and nobody
// else does; while count > 0 the owner in the word cannot change and the span cannot be empty for
// its owner, hence not be reused: it outlives the delivery. Items leave only all together, so ABA
// on the head is harmless: the link a push wrote still names the head it replaces.
// Thread-safety: any thread looks and pushes; `take` and `change_owner` are for whoever took the
// span from the owner's inbox, or holds the owner's lock; `open` and `close` for whoever has the
// span while no block of it lives. [Aigner15 §4.2 keeps the count in the
// pointer for the same reason]
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace near {

// `Blocks` names the blocks of the span: Block* at(uint32_t index), uint32_t index_of(Block*);
// Block has link_to(Block*) and link_to_end().
template <typename Block>
class RemoteList {
 public:
  // What one look at the word tells.
  class Seen {
   public:
    explicit Seen(uint64_t word) : word_(word) {}
    bool is_open() const { return word_ >> kClassShift != 0; }
    uint32_t size_class() const { return static_cast<uint32_t>(word_ >> kClassShift) - 1; }
    uint32_t node() const { return static_cast<uint32_t>(word_ >> 48 & 0xff); }     // of the span
    uint32_t owner() const { return static_cast<uint32_t>(word_ >> 32 & 0xffff); }  // heap number
    uint32_t count() const { return static_cast<uint32_t>(word_ >> 16 & 0xffff); }  // of blocks
    uint32_t head() const { return static_cast<uint32_t>(word_ & kHeadMask); }

   private:
    friend RemoteList;
    uint64_t word_;
  };
  struct Pushed {
    bool first;      // the list was empty: deliver the span to the inbox of `owner`
    uint32_t owner;  // the heap number at the moment of the push
    uint32_t node;   // where the span lies
    uint32_t count;  // blocks in the list, those pushed included
    bool repeated;   // a double free: the block was already the head, or the list was closed
                     // meanwhile; nothing was done
  };
  struct Chain {
    Block* first;  // null if empty
    Block* last;
    uint32_t count;
  };

  // Before a block of the span is handed out. relaxed: handing it out is what shares it
  void open(uint32_t owner, uint32_t node, uint32_t size_class) {
    word_.store(uint64_t{size_class + 1} << kClassShift | uint64_t{node} << 48 | owner_bits(owner),
                kRelaxed);
  }

  // Before the span is given away. relaxed: who gets the slices, and whose blocks are then freed,
  // has them by way of the heap's or the node's lock
  void close() { word_.store(0, kRelaxed); }

  Seen look() const { return Seen(word_.load(kAcquire)); }  // pairs: remote-list

  template <typename Blocks>
  Pushed push(const Blocks& blocks, Block* block) {
    return push_chain(blocks, {block, block, 1}, look());
  }

  // Pushes a chain that is linked from `first` up to `last`, whose link is written here. It is
  // `repeated` if `last` is the head already, as in a push of the blocks one by one, `last` first.
  // `seen` is a look made while the caller had all blocks of the chain.
  template <typename Blocks>
  Pushed push_chain(const Blocks& blocks, const Chain& chain, Seen seen) {
    const uint32_t first = blocks.index_of(chain.first);
    const uint32_t last = blocks.index_of(chain.last);
    uint64_t wanted = 0;
    do {
      const uint32_t count = seen.count();
      const bool is_head = count > 0 && seen.head() == last;
      if (is_head || !seen.is_open()) return {false, seen.owner(), seen.node(), count, true};
      count > 0 ? chain.last->link_to(blocks.at(seen.head())) : chain.last->link_to_end();
      wanted = (seen.word_ & kHomeMask) | uint64_t{count + chain.count} << 16 | first;
    } while (!word_.compare_exchange_weak(seen.word_, wanted, kAcqRel,
                                          kAcquire));  // pairs: remote-list
    if (seen.count() == 0) last_ = chain.last;
    return {seen.count() == 0, seen.owner(), seen.node(), seen.count() + chain.count, false};
  }

  // Empties the list in constant time. The caller took the span from the inbox, so `last_` is
  // written.
  template <typename Blocks>
  Chain take(const Blocks& blocks) {
    Block* last = last_;
    const Seen seen(word_.fetch_and(kHomeMask, kAcqRel));  // pairs: remote-list
    if (seen.count() == 0) return {nullptr, nullptr, 0};
    return {blocks.at(seen.head()), last, seen.count()};
  }

  // Gives the span to another heap, unless blocks are on their way to the present owner.
  bool change_owner(uint32_t from, uint32_t to) {
    const uint64_t word = word_.load(kRelaxed);  // relaxed: the exchange checks it
    const uint64_t place = word & kPlaceMask;
    uint64_t expected = place | owner_bits(from) | (word & kHeadMask);
    return word_.compare_exchange_strong(expected, place | owner_bits(to), kAcqRel,
                                         kRelaxed);  // pairs: remote-list
  }

  uint32_t count() const { return look().count(); }
  uint32_t owner() const { return look().owner(); }

  // For `check`: the head, or null. Meaningful only while nobody pushes.
  template <typename Blocks>
  Block* peek(const Blocks& blocks) const {
    const Seen seen = look();
    return seen.count() == 0 ? nullptr : blocks.at(seen.head());
  }

 private:
  static constexpr unsigned kClassShift = 56;
  static constexpr uint64_t kPlaceMask = uint64_t{0xffff} << 48;     // class and node
  static constexpr uint64_t kHomeMask = uint64_t{0xffffffff} << 32;  // these and the owner
  static constexpr uint64_t kHeadMask = 0xffff;

  static uint64_t owner_bits(uint32_t owner) { return uint64_t{owner} << 32; }

  Atomic<uint64_t> word_;
  // The block at the end; written by the push that found the list empty, before the span is
  // delivered.
  Plain<Block*> last_;
};

}  // namespace near

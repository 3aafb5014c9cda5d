// The blocks of one span that were freed by threads that do not own it. One 64-bit word holds the
// list and all that such a thread needs to know of the span, so it reads one word of another node.
//
//   word = { size class + 1 : 8 | node : 8 | owner : 16 | count : 16 | head : 16 }
//   0: the list is closed: the slice is not the first of a span of a class. Class and node are
//   constant while blocks live. head: index of the block pushed last, meaningless if count == 0
//
// Invariant: count blocks are linked from head; count > 0 <=> the span is in (or on its way to) its
// owner's inbox. So only the push that finds count == 0 delivers the span. While count > 0, the
// owner in the word cannot change, and the owner cannot find the span empty and reuse it: the span
// outlives the delivery. Items leave only all together, so ABA on the head is harmless: the link
// that a push wrote still names the head that it replaces.
// [Aigner15 §4.2 keeps the count in the pointer for the same reason]
// Thread-safety: any thread calls `look` and `push`. `take` and `change_owner`: the thread that
// took the span from the owner's inbox, or a holder of the owner's lock. `open` and `close`: the
// thread that has the span while none of its blocks is live.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "sync/tsan.h"

namespace near {

// `Blocks` maps the span's blocks to numbers: Block* at(uint32_t index), uint32_t index_of(Block*).
// Block has link_to(Block*) and link_to_end().
template <typename Block>
class RemoteList {
 public:
  // The fields of the word at one moment.
  class Seen {
   public:
    explicit Seen(uint64_t word) : word_(word) {}
    bool is_open() const { return word_ >> kClassShift != 0; }
    uint32_t size_class() const { return static_cast<uint32_t>(word_ >> kClassShift) - 1; }
    uint32_t node() const { return static_cast<uint32_t>(word_ >> 48 & 0xff); }     // of the span
    uint32_t owner() const { return static_cast<uint32_t>(word_ >> 32 & 0xffff); }  // heap number
    uint32_t count() const { return static_cast<uint32_t>(word_ >> 16 & 0xffff); }  // of blocks
    uint32_t head() const { return static_cast<uint32_t>(word_ & kHeadMask); }
    bool is_head(uint32_t block) const { return count() > 0 && head() == block; }

   private:
    friend RemoteList;
    uint64_t word_;
  };
  struct Pushed {
    bool first;      // the list was empty: deliver the span to the inbox of `owner`
    uint32_t owner;  // the heap number at the moment of the push
    uint32_t node;   // the span's node
    uint32_t count;  // blocks in the list, including those pushed
    bool repeated;   // a double free: the block was already the head, or the list was closed
                     // meanwhile; nothing was pushed
  };
  struct Chain {
    Block* first;  // null if empty
    Block* last;
    uint32_t count;
  };

  // Called before a block of the span is handed out. relaxed: handing a block out publishes it
  void open(uint32_t owner, uint32_t node, uint32_t size_class) {
    word_.store(uint64_t{size_class + 1} << kClassShift | uint64_t{node} << 48 | owner_bits(owner),
                kRelaxed);
  }

  // Called before the span is given away. relaxed: the heap's or the node's lock orders it before
  // the next use of the slices, and so before frees of the blocks that are then in them
  void close() { word_.store(0, kRelaxed); }

  Seen look() const { return Seen(word_.load(kAcquire)); }  // pairs: remote-list

  template <typename Blocks>
  Pushed push(const Blocks& blocks, Block* block) {
    return push_chain(blocks, {block, block, 1}, look());
  }

  // Pushes a chain that is linked from `first` to `last`; the link of `last` is written here. The
  // chain is `repeated` if `last` is the head already, as if the blocks were pushed one by one,
  // `last` first. The caller called look() for `seen` when it had all blocks of the chain.
  template <typename Blocks>
  NEAR_INLINE Pushed push_chain(const Blocks& blocks, const Chain& chain, Seen seen) {
    const uint32_t first = blocks.index_of(chain.first);
    const uint32_t last = blocks.index_of(chain.last);
    uint64_t wanted = 0;
    tell_given();
    do {
      const uint32_t count = seen.count();
      if (seen.is_head(last) || !seen.is_open())
        return {false, seen.owner(), seen.node(), count, true};
      count > 0 ? chain.last->link_to(blocks.at(seen.head())) : chain.last->link_to_end();
      wanted = (seen.word_ & kHomeMask) | uint64_t{count + chain.count} << 16 | first;
    } while (!word_.compare_exchange_weak(seen.word_, wanted, kAcqRel,
                                          kAcquire));  // pairs: remote-list
    if (seen.count() == 0) last_ = chain.last;
    return {seen.count() == 0, seen.owner(), seen.node(), seen.count() + chain.count, false};
  }

  // Empties the list in constant time. `last_` is written by now, because the caller took the span
  // from the inbox.
  template <typename Blocks>
  Chain take(const Blocks& blocks) {
    Block* last = last_;
    const Seen seen(word_.fetch_and(kHomeMask, kAcqRel));  // pairs: remote-list
    tell_taken();
    if (seen.count() == 0) return {nullptr, nullptr, 0};
    return {blocks.at(seen.head()), last, seen.count()};
  }

  // Gives the span to another heap. False if the list holds blocks for the present owner.
  bool change_owner(uint32_t from, uint32_t to) {
    const uint64_t word = word_.load(kRelaxed);  // relaxed: the exchange checks it
    const uint64_t place = word & kPlaceMask;
    uint64_t expected = place | owner_bits(from) | (word & kHeadMask);
    return word_.compare_exchange_strong(expected, place | owner_bits(to), kAcqRel,
                                         kRelaxed);  // pairs: remote-list
  }

  uint32_t count() const { return look().count(); }
  uint32_t owner() const { return look().owner(); }

  // For `check`: the head, or null. Meaningful only while no thread pushes.
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
  // The block at the end. The push that finds the list empty writes it before it delivers the span.
  Plain<Block*> last_;
};

}  // namespace near

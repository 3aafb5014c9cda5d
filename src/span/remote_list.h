// The blocks of one span that were freed by threads that do not own it, who owns it, and the node
// where it lies, in one 64-bit word: a thread on another node looks there once.
//
//   word = { node : 16 | owner : 16 | count : 16 | head : 16 }
//   node: constant while blocks live; head: index of the block pushed last, meaningless if
//   count == 0
//
// Invariant: count blocks hang from head by their `next`; count > 0 <=> the span is in (or on its
// way to) its owner's inbox. So the push that finds count == 0 delivers the span, once, and nobody
// else does; while count > 0 the owner in the word cannot change and the span cannot be empty for
// its owner, hence not be reused: it outlives the delivery. Items leave only all together, so ABA
// on the head is harmless: the link a push wrote still names the head it replaces.
// Who may touch it: any thread pushes; `take` and `change_owner` are for whoever took the span from
// the owner's inbox, or holds the owner's lock. [Aigner15 §4.2 keeps the count in the pointer for
// the same reason]
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace near {

// `Blocks` names the blocks of the span: Block* at(uint32_t index), uint32_t index_of(Block*);
// Block has `next`.
template <typename Block>
class RemoteList {
 public:
  struct Pushed {
    bool first;      // the list was empty: deliver the span to the inbox of `owner`
    uint32_t owner;  // the heap number at the moment of the push
    uint32_t node;   // where the span lies
    uint32_t count;  // blocks in the list, those pushed included
    bool repeated;   // the block was already the head: a double free; nothing was done
  };
  struct Chain {
    Block* first;  // null if empty
    Block* last;
    uint32_t count;
  };

  // Before the span is seen by other threads. relaxed: not yet shared
  void reset(uint32_t owner, uint32_t node) {
    word_.store(uint64_t{node} << 48 | owner_bits(owner), kRelaxed);
  }

  template <typename Blocks>
  Pushed push(const Blocks& blocks, Block* block) {
    return push_chain(blocks, {block, block, 1});
  }

  // Pushes a chain that is linked from `first` up to `last`, whose link is written here. It is
  // `repeated` if `last` is the head already, as in a push of the blocks one by one, `last` first.
  template <typename Blocks>
  Pushed push_chain(const Blocks& blocks, const Chain& chain) {
    const uint32_t first = blocks.index_of(chain.first);
    const uint32_t last = blocks.index_of(chain.last);
    uint64_t word =
        word_.load(kAcquire);  // pairs: remote-list (an owner changed it, or another push)
    uint64_t wanted = 0;
    do {
      const uint32_t count = count_of(word);
      if (count > 0 && head_of(word) == last)
        return {false, owner_of(word), node_of(word), count, true};
      chain.last->next = count > 0 ? blocks.at(head_of(word)) : nullptr;
      wanted = (word & kHomeMask) | uint64_t{count + chain.count} << 16 | first;
    } while (!word_.compare_exchange_weak(word, wanted, kAcqRel, kAcquire));  // pairs: remote-list
    if (count_of(word) == 0) last_ = chain.last;
    return {count_of(word) == 0, owner_of(word), node_of(word), count_of(wanted), false};
  }

  // Empties the list in constant time. The caller took the span from the inbox, so `last_` is
  // written.
  template <typename Blocks>
  Chain take(const Blocks& blocks) {
    Block* last = last_;
    const uint64_t word = word_.fetch_and(kHomeMask, kAcqRel);  // pairs: remote-list
    if (count_of(word) == 0) return {nullptr, nullptr, 0};
    return {blocks.at(head_of(word)), last, count_of(word)};
  }

  // Gives the span to another heap, unless blocks are on their way to the present owner.
  bool change_owner(uint32_t from, uint32_t to) {
    const uint64_t word = word_.load(kRelaxed);  // relaxed: the exchange checks it
    const uint64_t node = word & kNodeMask;
    uint64_t expected = node | owner_bits(from) | (word & kHeadMask);
    return word_.compare_exchange_strong(expected, node | owner_bits(to), kAcqRel,
                                         kRelaxed);  // pairs: remote-list
  }

  uint32_t count() const { return count_of(word_.load(kAcquire)); }  // pairs: remote-list
  uint32_t owner() const { return owner_of(word_.load(kAcquire)); }  // pairs: remote-list

  // For `check`: the head, or null. Meaningful only while nobody pushes.
  template <typename Blocks>
  Block* peek(const Blocks& blocks) const {
    const uint64_t word = word_.load(kAcquire);  // pairs: remote-list
    return count_of(word) == 0 ? nullptr : blocks.at(head_of(word));
  }

 private:
  static constexpr uint64_t kNodeMask = uint64_t{0xffff} << 48;
  static constexpr uint64_t kHomeMask = uint64_t{0xffffffff} << 32;  // node and owner
  static constexpr uint64_t kHeadMask = 0xffff;

  static uint64_t owner_bits(uint32_t owner) { return uint64_t{owner} << 32; }
  static uint32_t node_of(uint64_t word) { return static_cast<uint32_t>(word >> 48); }
  static uint32_t owner_of(uint64_t word) { return static_cast<uint32_t>(word >> 32 & 0xffff); }
  static uint32_t count_of(uint64_t word) { return static_cast<uint32_t>(word >> 16 & 0xffff); }
  static uint32_t head_of(uint64_t word) { return static_cast<uint32_t>(word & kHeadMask); }

  Atomic<uint64_t> word_;
  // The block at the end; written by the push that found the list empty, before the span is
  // delivered.
  Plain<Block*> last_;
};

}  // namespace near

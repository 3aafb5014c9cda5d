// The lock-free skip list under skip_list: a walk that goes down to a level of it, and the linking,
// removal and retirement of nodes, whose towers of links have different heights.
//
//   insert   link at level 0, then at each level above, by a walk of its own each time; let go
//   erase    the node's value becomes null; set the lowest bit of its links, from the top down; let
//            go
//   let go   of inserter and eraser, the last one walks past the node once more, and retires it
// A walk unlinks the removed nodes that it meets, on each level.
//
// Invariant: on each level keys ascend, where removed nodes may come before a node with the same
// key. A link with its bit set never changes again. A link without it, of a node that was linked on
// that level, belongs to a node that still is, and so the node that it points to is linked there.
// A node is linked from the bottom up and its bits are set from the top down, so a node that is
// found on a level is, or was, linked on all levels below; if its link there has no bit, it still
// is.
// A node is retired once, after it is unlinked from all levels. Proof. The last to let go comes
// after the inserter's last link and after the eraser's last bit. From then on no thread links the
// node. Its walk ends on each level at two neighbours, one before the key and one behind, the first
// of which was linked then. The node is not between these. It is not behind the second one, which
// has no bit: another node with this key is inserted after all bits of the removed node are set and
// level 0 is without it, so on each level it is linked by a walk that met the removed node first,
// and unlinked it; and the inserter of the removed node links it once more there at most, between
// two neighbours that it holds, with no other node of this key between them.
// So the check after hold() suffices, as in ordered_list.hpp: a link that still reads the same,
// without the bit, leads to a node that was linked after it was held.
// Thread-safety: any thread inside a guard.
// Papers: [Fraser04; Herlihy12 §14.4]; two threads that let go replace their reference counts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "nearmalloc/reclaim/impl/ordered_list.hpp"

namespace near::reclaim::impl {

// A node has: `precedes(probe)`, `matches(probe)` and `probe()` as in ordered_list.hpp; `links()`,
// its tower of `height` links; `Atomic<uint32_t> holders`, 2 at first; `bytes()`.
//
// A walk uses slots 0 and 1 of its guard: one holds the node it is at, the other the node before.
template <class Node, class Guard>
class skip_walk {
 public:
  skip_walk(Guard& guard, list_link* head) noexcept : guard_(guard), head_(head) {}

  // The node at which the last seek ended; null: there is none.
  Node* node() const noexcept { return current_; }

  // Effect: goes to the first node of `level` that does not precede `probe`, beginning on level
  // `from` - 1. Returns whether it matches.
  template <class Probe>
  bool seek(const Probe& probe, unsigned from, unsigned level) noexcept {
    while (!try_seek(probe, from, level)) {
    }
    return current_ != nullptr && current_->matches(probe);
  }

  // Requires node(). Effect: goes to the next node of the level; false: the place is lost.
  bool advance() noexcept {
    before_ = current_->links();
    current_ = next_;
    slot_ ^= 1;
    return settle();
  }

  // Effect: links `fresh` before node() on the level of the last seek; false: the place is lost.
  // Requires that the link of `fresh` there leads to node().
  bool link(Node* fresh) noexcept {
    uintptr_t expected = word_of(current_);
    // Acquires, too: a thread that finds level 0 without a node that had this key finds its bits
    // set on the levels above. pairs: skip-link
    return before_[level_].compare_exchange_strong(expected, word_of(fresh), kAcqRel, kRelaxed);
  }

 private:
  template <class Probe>
  bool try_seek(const Probe& probe, unsigned from, unsigned level) noexcept {
    before_ = head_;
    for (level_ = from; level_-- > level;) {
      const uintptr_t first = before_[level_].load(kAcquire);  // pairs: skip-link
      if ((first & kRemovedBit) != 0) return false;  // nothing can be linked or unlinked behind it
      current_ = node_of<Node>(first);
      if (!settle()) return false;
      while (current_ != nullptr && current_->precedes(probe)) {
        if (!advance()) return false;
      }
    }
    level_ = level;
    return true;
  }

  // Effect: unlinks removed nodes after before_, and stops at the first that is not removed; false:
  // the place is lost.
  bool settle() noexcept {
    while (current_ != nullptr) {
      if (!keep()) return false;
      const uintptr_t next = current_->links()[level_].load(kAcquire);  // pairs: skip-link
      next_ = node_of<Node>(next);
      if ((next & kRemovedBit) == 0) [[likely]]
        return true;
      uintptr_t expected = word_of(current_);
      if (!before_[level_].compare_exchange_strong(  // pairs: skip-link
              expected, word_of(next_), kRelease, kRelaxed)) {
        return false;
      }
      current_ = next_;
    }
    return true;
  }

  // Effect: current_ may be read; false: before_ no longer leads to it, or is removed itself.
  bool keep() noexcept {
    if constexpr (Guard::protects_all) {
      return true;
    } else {
      guard_.hold(slot_, current_);
      // pairs: skip-link
      const bool is_linked = before_[level_].load(kAcquire) == word_of(current_);
      return is_linked && still_holds(guard_);
    }
  }

  Guard& guard_;
  list_link* const head_;
  list_link* before_ = nullptr;  // the head's tower, or that of a node in the other slot
  Node* current_ = nullptr;      // in slot_
  Node* next_ = nullptr;         // after current_; in no slot, so it must not be dereferenced
  unsigned level_ = 0;
  unsigned slot_ = 0;
};

// Effect: sets the bits of a node whose value is null, or finds them set.
template <class Node>
void skip_remove(Node& node) noexcept {
  for (unsigned level = node.height; level-- > 0;) {
    uintptr_t next = node.links()[level].load(kAcquire);  // pairs: skip-link
    while ((next & kRemovedBit) == 0 &&
           !node.links()[level].compare_exchange_weak(  // pairs: skip-link
               next, next | kRemovedBit, kAcqRel, kAcquire)) {
    }
  }
}

// Called once by the thread that inserted the node, which is then done, and once by the thread that
// erased it. `top`: no fewer than the levels that a walk has to begin with.
template <class Node, class Guard>
void skip_let_go(Guard& guard, list_link* head, unsigned top, Node& node) noexcept {
  if (node.holders.fetch_sub(1, kRelease) != 1) return;  // pairs: skip-holders
  (void)node.holders.load(kAcquire);                     // pairs: skip-holders
  skip_walk<Node, Guard> walk(guard, head);
  walk.seek(node.probe(), std::max<unsigned>(top, node.height), 0);
  guard.retire(&node, node.bytes());
}

// Effect: links a node, which is linked on level 0, on the levels above, unless it is removed.
template <class Node, class Guard>
void skip_raise(Guard& guard, list_link* head, unsigned top, Node& node) noexcept {
  skip_walk<Node, Guard> walk(guard, head);
  for (unsigned level = 1; level < node.height; level++) {
    list_link& link = node.links()[level];
    do {
      walk.seek(node.probe(), std::max(top, level + 1), level);
      uintptr_t next = link.load(kRelaxed);  // relaxed: the exchange checks it
      if ((next & kRemovedBit) != 0) return;
      // relaxed: released by the link that leads here
      if (!link.compare_exchange_strong(next, word_of(walk.node()), kRelaxed, kRelaxed)) return;
    } while (!walk.link(&node));
  }
}

// Returns the first node that does not precede `probe` and is not removed; writes nothing. Requires
// a guard that protects all. A removed node is passed, but not descended from: it may still be
// linked on a level when level 0 has been without it since before this call.
template <class Node, class Probe>
Node* skip_find(list_link* head, unsigned top, const Probe& probe) noexcept {
  list_link* before = head;
  Node* current = nullptr;
  for (unsigned level = top; level-- > 0;) {
    current = node_of<Node>(before[level].load(kAcquire));  // pairs: skip-link
    while (current != nullptr) {
      const uintptr_t next = current->links()[level].load(kAcquire);  // pairs: skip-link
      if ((next & kRemovedBit) == 0) {
        if (!current->precedes(probe)) break;
        before = current->links();
      }
      current = node_of<Node>(next);
    }
  }
  return current;
}

}  // namespace near::reclaim::impl

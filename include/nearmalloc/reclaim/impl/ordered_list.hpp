// The lock-free ordered list under list_set and hash_map: a walk that finds a place in the list,
// and insert, put, erase, find and visit as its uses.
//
// Invariant: along `next` the nodes ascend strictly, removed ones included, except that the node
// that replaced another one may follow it. A node is removed by setting the lowest bit of its
// `next`, which never changes again; it is replaced if `next` becomes the new node in the same
// step, so at each moment one of the two is in the list. Then the first thread that meets
// it unlinks and retires it, so it is retired exactly once. A link without that bit belongs to a
// node in the list, and so the node that it points to is in the list too. That makes the check
// after hold() sufficient: if the link still reads the same, without the bit, then the node was in
// the list after it was held, and so was not retired before.
//
// Under `checkpoints` a walk goes from one section to the next at a node that is not removed. The
// same holds there: a node without that bit after the new section has begun is in the list.
//
// Thread-safety: any thread inside a guard.
// Paper: [Michael02], with the removal bit of [Harris01]; the read-only search is [Heller05].
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/born.hpp"
#include "nearmalloc/reclaim/impl/section.hpp"

namespace near::reclaim::impl {

using list_link = Atomic<uintptr_t>;

inline constexpr uintptr_t kRemovedBit = 1;

template <class Node>
Node* node_of(uintptr_t word) noexcept {
  return reinterpret_cast<Node*>(word & ~kRemovedBit);
}

inline uintptr_t word_of(const void* node) noexcept { return reinterpret_cast<uintptr_t>(node); }

// Called at each step of a walk, at a node whose link was read as `next`. Under `checkpoints` the
// next section may begin here, if the node is not yet removed: then reads the link again. False:
// the place is lost, as another thread has removed the node since; that can be only once for each
// epoch that another thread begins.
template <class Node, class Guard>
bool keeps_place(Guard& guard, SectionSteps& steps, const Node* node, uintptr_t& next) noexcept {
  if (!begins_section(guard, steps, node, (next & kRemovedBit) == 0)) [[likely]]
    return true;
  next = node->next.load(kAcquire);  // pairs: list-link
  return (next & kRemovedBit) == 0;
}

// A node has: `list_link next`; `precedes(probe)`, whether it lies before what is looked for;
// `matches(probe)`, whether a node that does not precede is what is looked for; `removable_type`,
// the object that is retired when the node is unlinked.
//
// A walk uses slots 0 and 1 of its guard: one holds the node it is at, the other the node before.
template <class Node, class Guard>
class list_walk {
 public:
  list_walk(Guard& guard, list_link& head) noexcept : guard_(guard), head_(head) {}

  // The first node that does not precede the probe of the last seek; null: there is none.
  Node* node() const noexcept { return current_; }

  // Effect: goes to the first node that does not precede `probe`. Returns whether it matches.
  template <class Probe>
  bool seek(const Probe& probe) noexcept {
    list_walk walk(*this);  // a copy that no other function knows of stays in registers
    while (!walk.try_seek(probe)) {
    }
    previous_ = walk.previous_;
    current_ = walk.current_;
    next_ = walk.next_;
    slot_ = walk.slot_;
    return current_ != nullptr && current_->matches(probe);
  }

  // Requires node(). Effect: goes to the next node; false: the place is lost, seek again.
  bool advance() noexcept {
    uintptr_t next = word_of(next_);
    if (!keeps_place(guard_, steps_, current_, next)) return false;
    previous_ = &current_->next;
    current_ = node_of<Node>(next);
    slot_ ^= 1;
    return settle();
  }

  // Effect: links `fresh` before node(); false: the place is lost.
  bool insert(Node* fresh) noexcept {
    fresh->next.store(word_of(current_), kRelaxed);  // relaxed: not yet linked
    uintptr_t expected = word_of(current_);
    return previous_->compare_exchange_strong(  // pairs: list-link
        expected, word_of(fresh), kRelease, kRelaxed);
  }

  // Requires node(). Effect: removes it; false: another thread removed it, or changed its link.
  bool remove() noexcept {
    uintptr_t expected = word_of(next_);
    return current_->next.compare_exchange_strong(  // pairs: list-link
        expected, expected | kRemovedBit, kRelease, kRelaxed);
  }

  // Requires node(). Effect: removes it and adds `fresh`, which matches as it does; false: another
  // thread removed it, or changed its link. The caller goes on as after remove().
  bool replace(Node* fresh) noexcept {
    fresh->next.store(word_of(next_), kRelaxed);  // relaxed: not yet linked
    uintptr_t expected = word_of(next_);
    if (!current_->next.compare_exchange_strong(  // pairs: list-link
            expected, word_of(fresh) | kRemovedBit, kRelease, kRelaxed)) {
      return false;
    }
    next_ = fresh;
    return true;
  }

  // Requires that node() is removed. Effect: retires node(), and goes to its successor; false: the
  // place is lost, and the next seek that passes there unlinks the node.
  bool unlink() noexcept {
    uintptr_t expected = word_of(current_);
    if (!previous_->compare_exchange_strong(  // pairs: list-link
            expected, word_of(next_), kRelease, kRelaxed)) {
      return false;
    }
    guard_.retire(static_cast<typename Node::removable_type*>(current_));
    current_ = next_;
    return true;
  }

 private:
  template <class Probe>
  bool try_seek(const Probe& probe) noexcept {
    previous_ = &head_;
    current_ = node_of<Node>(head_.load(kAcquire));  // pairs: list-link
    if (!settle()) return false;
    while (current_ != nullptr && current_->precedes(probe)) {
      if (!advance()) return false;
    }
    return true;
  }

  // Effect: unlinks removed nodes after previous_, and stops at the first that is not removed;
  // false: the place is lost.
  bool settle() noexcept {
    while (current_ != nullptr) {
      if (!keep()) return false;
      const uintptr_t next = current_->next.load(kAcquire);  // pairs: list-link
      next_ = reinterpret_cast<Node*>(next);
      // The branch is predicted; masking the bit would add latency between any two loads.
      if ((next & kRemovedBit) == 0) [[likely]]
        return true;
      next_ = node_of<Node>(next);
      if (!unlink()) return false;
    }
    return true;
  }

  // Effect: current_ may be read; false: previous_ no longer points to it, or is removed itself.
  bool keep() noexcept {
    if constexpr (Guard::protects_all) {
      return true;
    } else {
      guard_.hold(slot_, current_);
      const bool is_linked = previous_->load(kAcquire) == word_of(current_);  // pairs: list-link
      return is_linked && still_holds(guard_);
    }
  }

  Guard& guard_;
  list_link& head_;
  list_link* previous_ = nullptr;  // the head, or the link of a node in the other slot
  Node* current_ = nullptr;        // in slot_
  Node* next_ = nullptr;           // after current_; in no slot, so it must not be dereferenced
  unsigned slot_ = 0;
  SectionSteps steps_;
};

// Effect: links what `make()` returns where `probe` belongs, if there is no match. `make` runs at
// most once, and before anything is changed.
template <class Node, class Guard, class Probe, class Make>
bool list_insert(Guard& guard, list_link& head, const Probe& probe, Make make) {
  list_walk<Node, Guard> walk(guard, head);
  if (walk.seek(probe)) return false;
  auto* fresh = make();
  while (!walk.insert(fresh)) {
    if (walk.seek(probe)) {
      delete fresh;
      return false;
    }
  }
  return true;
}

enum class put : uint8_t { refused, inserted, replaced };

// Effect: links what `make()` returns where `probe` belongs, in the place of the match if there is
// one, if allows(match or null) is true. `make` runs at most once, and before anything is changed.
template <class Node, class Guard, class Probe, class Make, class Allows>
put list_put(Guard& guard, list_link& head, const Probe& probe, Make make, Allows allows) {
  list_walk<Node, Guard> walk(guard, head);
  std::unique_ptr<std::remove_pointer_t<decltype(make())>> fresh;  // until it is linked
  for (;;) {
    const bool is_there = walk.seek(probe);
    if (!allows(is_there ? walk.node() : nullptr)) return put::refused;
    if (fresh == nullptr) fresh.reset(make());
    const bool done = is_there ? walk.replace(fresh.get()) : walk.insert(fresh.get());
    if (!done) continue;
    (void)fresh.release();
    if (!is_there) return put::inserted;
    if (!walk.unlink()) walk.seek(probe);
    return put::replaced;
  }
}

template <class Node, class Guard, class Probe>
bool list_erase(Guard& guard, list_link& head, const Probe& probe) noexcept {
  list_walk<Node, Guard> walk(guard, head);
  do {
    if (!walk.seek(probe)) return false;
  } while (!walk.remove());
  if (!walk.unlink()) walk.seek(probe);
  return true;
}

// Returns the match, or null. It may be read until slots 0 and 1 are reused or the guard ends.
// Where the guard protects all, the search writes nothing to the list, and waits for nobody unless
// others replace the match again and again; under `checkpoints`, unless in each epoch another
// thread erases the very node at which a section begins.
template <class Node, class Guard, class Probe>
const Node* list_find(Guard& guard, list_link& head, const Probe& probe) noexcept {
  if constexpr (Guard::protects_all) {
    auto* node = node_of<Node>(head.load(kAcquire));  // pairs: list-link
    SectionSteps steps;
    while (node != nullptr && node->precedes(probe)) {
      uintptr_t next = node->next.load(kAcquire);                              // pairs: list-link
      if (!keeps_place(guard, steps, node, next)) next = head.load(kAcquire);  // pairs: list-link
      node = node_of<Node>(next);
    }
    // A node that was replaced leads to the one that replaced it.
    while (node != nullptr && node->matches(probe)) {
      const uintptr_t next = node->next.load(kAcquire);  // pairs: list-link
      if ((next & kRemovedBit) == 0) return node;
      node = node_of<Node>(next);
    }
    return nullptr;
  } else {
    list_walk<Node, Guard> walk(guard, head);
    return walk.seek(probe) ? walk.node() : nullptr;
  }
}

// Effect: calls `visit(node)` for each node from `from` on until it returns false. `from` must be
// assignable from `node.probe()`: with that the walk finds a lost place again. Where the guard
// protects all, that is assigned only when the place is lost.
template <class Node, class Guard, class Probe, class Visit>
void list_visit(Guard& guard, list_link& head, Probe from, Visit visit) {
  if constexpr (Guard::protects_all) {
    auto* node = node_of<Node>(head.load(kAcquire));  // pairs: list-link
    SectionSteps steps;
    bool is_past = false;  // what matches `from` was visited
    while (node != nullptr) {
      uintptr_t next = node->next.load(kAcquire);  // pairs: list-link
      const bool is_before = node->precedes(from) || (is_past && node->matches(from));
      if ((next & kRemovedBit) == 0 && !is_before) {
        const OneSection<Guard> section(guard);
        if (!visit(std::as_const(*node))) return;
      }
      // Not read again since: what the visit erased is a place at which a section may begin, else a
      // walk that erases all it meets would begin none.
      if (!keeps_place(guard, steps, node, next)) {
        if (!is_before) {
          from = node->probe();  // the slot holds the node, which was visited
          is_past = true;
        }
        next = head.load(kAcquire);  // pairs: list-link
      }
      node = node_of<Node>(next);
    }
  } else {
    list_walk<Node, Guard> walk(guard, head);
    walk.seek(from);
    while (walk.node() != nullptr) {
      if (!visit(std::as_const(*walk.node()))) return;
      from = walk.node()->probe();
      while (!walk.advance() && walk.seek(from)) {
      }
    }
  }
}

// For inspection when no other thread is inside: visits the nodes in order, removed ones included.
template <class Node, class Visit>
void list_each(const list_link& head, Visit visit) {
  // pairs: list-link
  for (auto* node = node_of<Node>(head.load(kAcquire)); node != nullptr;) {
    const uintptr_t next = node->next.load(kAcquire);  // pairs: list-link
    visit(node, (next & kRemovedBit) != 0);
    node = node_of<Node>(next);
  }
}

}  // namespace near::reclaim::impl

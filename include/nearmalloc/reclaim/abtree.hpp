// A concurrent relaxed (a,b)-tree: an ordered map whose nodes hold up to B entries.
//
//   domain<debra<>> d;
//   abtree<int64_t, int64_t, domain<debra<>>> map(d);
//   map.insert(1, 10);                        // pins by itself
//   map.upsert(1, 11);                        // there or not
//
// How it works. An entry node, which is never replaced, has one child, the root. Leaves never
// change: insert and erase put a new leaf in the place of the old one, by an SCX (impl/scx.hpp) on
// its parent, and retire the old one. Two things may be wrong for a while ("violations"), each the
// price of a change that touches one place only:
// - A full leaf is replaced by a node with two leaves. That makes the way to them longer by one, so
//   the node is tagged, and does not count. Its parent absorbs it; if the parent is full, parent
//   and node become two, under a new tagged node.
// - A node other than the root has fewer than A entries: it and a sibling become one, or share.
// An operation that creates a violation does not return until a search for its key has met none.
//
// Invariants.
// 1. Order: the keys of a node lie in its range, which is the same as long as it is in the tree.
// 2. Depth: the number of untagged nodes above a leaf is the same for all leaves. Leaves are never
//    tagged, nor is the root; a tagged node has two children, an inner root at least two.
// 3. An inner node is marked before it is cut off, and then its children no longer change: a search
//    inside it still reaches the leaf that was the right one at some time since the search began.
// 4. Every violation is repaired. What a step leaves behind (tagged, or too small) has a range with
//    the key of the operation that took the step, and that operation then searches again. A search
//    meets every node that stays in the tree throughout and has the key in its range: the links
//    lead there from where the search is, even if that place was cut off. So a violation that a
//    search misses was replaced meanwhile, and the operation that replaced it searches next.
// Steps begin with the topmost violation of the path; hence the parent has none, and a node that is
// too small has a sibling.
//
// Unlike [Brown17], leaves are neither frozen nor marked: they never change, and their parent is
// frozen when they are replaced, so an insert takes one freezing CAS less. And violations are
// searched for by a key, not by their node, so a violation may move to another node.
//
// find, contains and range write to no node. Under guards that protect all they never restart, and
// are wait-free unless the tree deepens without end below them. Under hazard pointers a search
// holds a child, then tests that the parent still has it and is not marked; else it restarts.
// bad_alloc: the entries are as before. If it is thrown in the repair that follows a change, the
// change stands, and the violation stays until a repair for another one meets it.
// Thread-safety: any thread; size, key_sum, check, for_each and the destructor: one thread while no
// other is inside. If 4096 threads are in the middle of a change, the next one waits.
// [Larsen, Fagerberg 1995; Brown17 "Techniques for Constructing Efficient Lock-free Data
// Structures", the chapter on the relaxed (a,b)-tree]
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/domain.hpp"
#include "nearmalloc/reclaim/impl/abtree_draft.hpp"
#include "nearmalloc/reclaim/impl/abtree_node.hpp"
#include "nearmalloc/reclaim/impl/abtree_scan.hpp"
#include "nearmalloc/reclaim/impl/abtree_search.hpp"
#include "nearmalloc/reclaim/impl/abtree_walk.hpp"
#include "nearmalloc/reclaim/impl/hazard.hpp"
#include "nearmalloc/reclaim/impl/own_slots.hpp"
#include "nearmalloc/reclaim/impl/scx.hpp"
#include "nearmalloc/reclaim/impl/section.hpp"
#include "nearmalloc/reclaim/impl/self_pinning.hpp"
#include "nearmalloc/reclaim/impl/update.hpp"

namespace near::reclaim {
namespace impl {

template <class Key, class Value, class Domain, unsigned B, unsigned A>
class guarded_abtree
    : impl::AbtreeSearch<
          impl::AbtreeNode<Key, Value, B, impl::born_under<typename Domain::guard_type>>,
          typename Domain::guard_type> {
  static_assert(A >= 2, "a node with one child has no sibling for it");
  static_assert(B >= 2 * A - 1, "two nodes that are too small must fit in one");

 public:
  using key_type = Key;
  using mapped_type = Value;
  using guard_type = typename Domain::guard_type;

  explicit guarded_abtree(Domain& domain) : domain_(domain) {
    entry_.set_word(0, Node::word_of(new Node(Node::Kind::leaf, false, 0)));
  }
  ~guarded_abtree() { impl::delete_subtree(entry_.child(0)); }
  guarded_abtree(const guarded_abtree&) = delete;
  guarded_abtree& operator=(const guarded_abtree&) = delete;

  // False: the key is there, and keeps its value. Throws std::bad_alloc.
  bool insert(guard_type& guard, const Key& key, const Value& value) {
    auto&& own = impl::own_slots(guard);
    for (;;) {
      const Place place = leaf_for(own, key);
      const unsigned at = place.node->place_of(key);
      if (place.node->has_at(at, key)) return false;
      if (try_insert(own, place, at, key, value)) return true;
    }
  }

  // Puts what f(there) returns in the place of what is there, in one step; `there` is the value, or
  // none. If f returns none, all stays as it is. `f` may be called more than once; the last call
  // counts. Throws std::bad_alloc, and what f throws; then all is as before.
  template <class F>
  update_result<Value> update(guard_type& guard, const Key& key, F f) {
    auto&& own = impl::own_slots(guard);
    const impl::OneSection section(own);  // `f` may use the guard, and `place` has to stay
    for (;;) {
      const Place place = leaf_for(own, key);
      const unsigned at = place.node->place_of(key);
      const std::optional<Value> there = place.node->value_if(at, key);
      const std::optional<Value> fresh = f(there);
      if (!fresh) return {there, false};
      const bool done = there ? try_replace(own, place, at, key, *fresh)
                              : try_insert(own, place, at, key, *fresh);
      if (done) return {there, true};
    }
  }

  // Erases the key, and returns the value that it had; none: it was not there. Throws
  // std::bad_alloc.
  std::optional<Value> take(guard_type& guard, const Key& key) {
    auto&& own = impl::own_slots(guard);
    for (;;) {
      const Place place = leaf_for(own, key);
      const unsigned at = place.node->place_of(key);
      const std::optional<Value> there = place.node->value_if(at, key);
      if (!there || try_erase(own, place, at, at + 1, key)) return there;
    }
  }
  bool erase(guard_type& guard, const Key& key) { return take(guard, key).has_value(); }

  std::optional<Value> find(guard_type& guard, const Key& key) const {
    auto&& own = impl::own_slots(guard);
    const Place place = leaf_for(own, key);
    return place.node->value_if(place.node->place_of(key), key);
  }
  bool contains(guard_type& guard, const Key& key) const { return find(guard, key).has_value(); }

  // Calls visit(key, value) for the keys in [low, high), in order; returns how many. The entries of
  // one leaf were there at one moment. `visit` may use the tree, with the same guard.
  template <class Visit>
  size_t range(guard_type& guard, const Key& low, const Key& high, Visit visit) const {
    auto&& own = impl::own_slots(guard);
    size_t count = 0;
    for (std::optional<Key> from = low; from.has_value() && *from < high;) {
      std::optional<Key> next;
      const Entries entries(*leaf_for(own, *from, next).node, *from);
      for (unsigned i = 0; i < entries.count && entries.keys[i] < high; ++i, ++count) {
        visit(entries.keys[i], entries.values[i]);
      }
      from = next;
    }
    return count;
  }

  // As range, but all entries were there at one moment of the call, at which no other key of the
  // range was: a scan is linearizable, with those of other threads and with all other operations.
  // `visit` is called afterwards. A scan begins again if meanwhile a key changes that has the same
  // parent as a leaf of the range; it may do so for ever while others change keys there. Throws
  // std::bad_alloc.
  template <class Visit>
  size_t scan(guard_type& guard, const Key& low, const Key& high, Visit visit) const {
    auto&& own = impl::own_slots(guard);
    impl::AbtreeScan<guarded_abtree> scan(*this, own);
    const auto& entries = scan.run(low, high);
    for (const auto& [key, value] : entries) visit(key, value);
    return entries.size();
  }

  // Erases the keys in [low, high), those of one leaf at one moment; returns how many. A key that
  // is inserted meanwhile may stay. Throws std::bad_alloc; then some are erased.
  size_t erase_range(guard_type& guard, const Key& low, const Key& high) {
    auto&& own = impl::own_slots(guard);
    size_t erased = 0;
    for (std::optional<Key> from = low; from.has_value() && *from < high;) {
      std::optional<Key> next;
      const Place place = leaf_for(own, *from, next);
      const unsigned first = place.node->place_of(*from);
      const unsigned end = place.node->place_of(high);
      if (first < end && !try_erase(own, place, first, end, *from)) continue;
      erased += end - first;
      from = next;
    }
    return erased;
  }

  template <class Visit>
  void for_each(Visit visit) const {
    impl::for_each_entry(*entry_.child(0), visit);
  }

  // Reports on stderr what is wrong.
  bool check() const {
    // relaxed: no other thread is inside
    const bool balanced = !unrepaired_.load(kRelaxed);
    return impl::AbtreeChecker<Node>(A, balanced).check(*entry_.child(0));
  }

 private:
  friend class impl::AbtreeScan<guarded_abtree>;

  using Node = impl::AbtreeNode<Key, Value, B, impl::born_under<guard_type>>;
  using Search = impl::AbtreeSearch<Node, guard_type>;
  using Search::descend;
  using Search::entry_;
  using Search::leaf_for;
  using Search::step;
  using Search::try_descend;
  using Draft = impl::AbtreeDraft<Node>;
  using Fresh = impl::AbtreeFresh<Node>;
  using Update = impl::ScxUpdate<Node>;
  using Place = impl::AbtreePlace<Node>;
  using Entries = impl::AbtreeEntries<Node>;

  // Slots of the guard: the path uses the first kPathSlots in turn, help() those from kHelpSlot on.
  static constexpr unsigned kSiblingSlot = Search::kPathSlots;
  static constexpr unsigned kHelpSlot = kSiblingSlot + 1;
  static_assert(kHelpSlot + Update::kMostNodes < impl::kGuardSlots);

  // Adds a protected node to an update. False: the node is changing or was cut off.
  bool link(guard_type& guard, Node* node, Update& update) {
    const uint64_t info = node->linked_info();
    if (scx_.is_in_progress(info)) {
      help(guard, info);
      return false;
    }
    if (node->is_finalized()) return false;
    update.freeze(node, info);
    return true;
  }

  void help(guard_type& guard, uint64_t tag) const {
    scx_.help(tag, [&](unsigned i, [[maybe_unused]] Node* node) {
      if constexpr (!guard_type::protects_all) guard.hold(kHelpSlot + i, node);
    });
  }

  // Links the two nodes above a place, if they are still connected.
  bool link_above(guard_type& guard, const Place& place, Update& update) {
    return link(guard, place.grand, update) &&
           place.grand->child(place.parent_index) == place.parent &&
           link(guard, place.parent, update);
  }

  // Puts `replacement` in the place of child `index` of the first node of the update.
  bool swing(Update& update, unsigned index, Node* old, Node* replacement, Fresh& fresh) {
    update.index = index;
    update.old = old;
    update.replacement = replacement;
    if (!scx_.scx(update)) return false;
    fresh.published();
    return true;
  }

  bool try_insert(guard_type& guard, const Place& place, unsigned at, const Key& key,
                  const Value& value) {
    Update update;
    if (!link(guard, place.parent, update)) return false;
    Fresh fresh;
    if (place.node->size < B) {
      Node* const leaf = copy_with(fresh, *place.node, at, key, Node::word_of(value));
      return replace_leaf(guard, place, key, update, leaf, fresh);
    }
    Draft draft(*place.node);
    draft.insert(at, key, Node::word_of(value));
    Node* const top = draft.halves(fresh, place.parent != &entry_);
    return replace_leaf(guard, place, key, update, top, fresh);
  }

  bool try_replace(guard_type& guard, const Place& place, unsigned at, const Key& key,
                   const Value& value) {
    Update update;
    if (!link(guard, place.parent, update)) return false;
    Fresh fresh;
    Node* const leaf = copy_without(fresh, *place.node, 0, 0);
    leaf->set_word(at, Node::word_of(value));
    return replace_leaf(guard, place, key, update, leaf, fresh);
  }

  bool try_erase(guard_type& guard, const Place& place, unsigned first, unsigned end,
                 const Key& key) {
    Update update;
    if (!link(guard, place.parent, update)) return false;
    Fresh fresh;
    Node* const leaf = copy_without(fresh, *place.node, first, end);
    return replace_leaf(guard, place, key, update, leaf, fresh);
  }

  bool replace_leaf(guard_type& guard, const Place& place, const Key& key, Update& update,
                    Node* replacement, Fresh& fresh) {
    if (place.parent->child(place.index) != place.node) return false;
    // Read now: once published, the node may be freed at any time.
    const bool violates = is_violation(*replacement, place.parent);
    if (!swing(update, place.index, place.node, replacement, fresh)) return false;
    guard.retire(place.node);
    if (violates) repair(guard, key);
    return true;
  }

  bool is_violation(const Node& node, const Node* parent) const {
    return node.tagged || (node.size < A && parent != &entry_);
  }

  // Takes steps until a search for `key` meets no violation.
  void repair(guard_type& guard, const Key& key) noexcept {
    const auto stop = [this](const Place& at) { return is_violation(*at.node, at.parent); };
    try {
      for (;;) {
        const Place place = descend(guard, key, stop);
        if (!stop(place)) return;
        if (place.node->tagged) {
          collect_remote(guard, place, place.index, place.node);
        } else {
          share(guard, place);
        }
      }
    } catch (const std::bad_alloc&) {
      unrepaired_.store(true, kRelaxed);  // relaxed: read when no thread is inside
    }
  }

  // A step: the tagged child `index` is absorbed by its parent, which may split.
  void collect_remote(guard_type& guard, const Place& place, unsigned index, Node* child) {
    Update update;
    if (!link_above(guard, place, update)) return;
    if (place.parent->child(index) != child || !link(guard, child, update)) return;
    Draft draft(*place.parent);
    draft.expand(index, *child);
    Fresh fresh;
    Node* const replacement =
        draft.size() <= B ? draft.whole(fresh) : draft.halves(fresh, place.grand != &entry_);
    if (!swing(update, place.parent_index, place.parent, replacement, fresh)) return;
    guard.retire(place.parent);
    guard.retire(child);
  }

  // A step: a node that is too small and its sibling become one, or share their entries equally.
  void share(guard_type& guard, const Place& place) {
    const unsigned left = place.index == 0 ? 0 : place.index - 1;
    const unsigned other = place.index == 0 ? 1 : left;
    Node* const sibling = step(guard, kSiblingSlot, *place.parent, other);
    if (sibling == nullptr) return;
    if (sibling->tagged) return collect_remote(guard, place, other, sibling);
    Update update;
    if (!link_above(guard, place, update)) return;
    const Node* const parent = place.parent;
    if (parent->child(place.index) != place.node || parent->child(other) != sibling) return;
    Node* const first = place.index == left ? place.node : sibling;
    Node* const second = place.index == left ? sibling : place.node;
    // Neither is tagged, so by the depth invariant both are leaves or neither is.
    if (!first->is_leaf() && !(link(guard, first, update) && link(guard, second, update))) return;
    Fresh fresh;
    const Draft both(*first, parent->keys[left], *second);
    Node* const replacement =
        replace_both(fresh, *parent, left, both, 2 * A, place.grand == &entry_);
    if (!swing(update, place.parent_index, place.parent, replacement, fresh)) return;
    guard.retire(place.parent);
    guard.retire(first);
    guard.retire(second);
  }

 protected:
  Domain& domain_;

 private:
  mutable impl::ScxTable<Node> scx_;  // mutable: a scan helps updates
  Atomic<bool> unrepaired_{false};    // no memory was left for a step
};

}  // namespace impl

// Adds operations without a guard, which pin by themselves; size and key_sum.
template <class Key, class Value, class Domain, unsigned B = 11, unsigned A = std::max(B / 4, 2u)>
class abtree : public impl::self_pinning_tree<impl::guarded_abtree<Key, Value, Domain, B, A>> {
 public:
  using base = impl::guarded_abtree<Key, Value, Domain, B, A>;
  using impl::self_pinning_tree<base>::self_pinning_tree;
  using base::scan;

  template <class Visit>
  size_t scan(const Key& low, const Key& high, Visit visit) const {
    auto guard = this->domain_.pin();
    return scan(guard, low, high, visit);
  }
};

}  // namespace near::reclaim

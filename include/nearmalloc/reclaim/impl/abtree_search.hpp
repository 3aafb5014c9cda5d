// The way down an (a,b)-tree to a leaf, and the entry node where it begins.
//
// Invariant: what a search returns was so at a moment of the search: the parent had the child, and
// was in the tree. Where the guard protects only what is held, the last kPathSlots nodes of the way
// are held.
// Thread-safety: any thread under a guard.
#pragma once

#include <optional>

#include "nearmalloc/reclaim/born.hpp"
#include "nearmalloc/reclaim/impl/abtree_node.hpp"

namespace near::reclaim::impl {

template <class Node, class Guard>
class AbtreeSearch {
 protected:
  using Key = typename Node::Key;
  using Place = AbtreePlace<Node>;

  static constexpr unsigned kPathSlots = 4;  // the way uses slots 0 to 3 in turn

  // Returns child `index` of `from`, both protected. Null: `from` is no longer in the tree.
  static Node* step(Guard& guard, unsigned slot, const Node& from, unsigned index) {
    Node* child = from.child(index);
    if constexpr (!Guard::protects_all) {
      for (;;) {
        guard.hold(slot, child);
        Node* const still = from.child(index);
        if (from.is_finalized()) return nullptr;
        if (still == child && still_holds(guard)) break;
        child = still;
      }
    }
    return child;
  }

  // Goes down to the first node for which until(place) is true, or a leaf.
  template <class Until>
  Place descend(Guard& guard, const Key& key, Until until) const {
    for (;;) {
      Place place;
      if (try_descend(guard, key, until, place)) return place;
    }
  }

  template <class Until>
  bool try_descend(Guard& guard, const Key& key, Until& until, Place& place) const {
    place.parent = &entry_;
    for (unsigned depth = 0;; ++depth) {
      place.node = step(guard, depth % kPathSlots, *place.parent, place.index);
      if (place.node == nullptr) return false;
      if (until(place) || place.node->is_leaf()) return true;
      place.grand = place.parent;
      place.parent = place.node;
      place.parent_index = place.index;
      place.index = place.node->child_for(key);
    }
  }

  Place leaf_for(Guard& guard, const Key& key) const {
    return descend(guard, key, [](const Place&) { return false; });
  }

  // `next`: the least key beyond the leaf.
  Place leaf_for(Guard& guard, const Key& key, std::optional<Key>& next) const {
    return descend(guard, key, [&](const Place& at) {
      if (at.parent == &entry_) next.reset();
      at.note_next(next);
      return false;
    });
  }

  mutable Node entry_{Node::Kind::inner, false, 1};
};

}  // namespace near::reclaim::impl

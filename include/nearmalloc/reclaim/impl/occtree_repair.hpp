// Keeps an occtree balanced: heights, rotations, and the unlinking of routing nodes.
//
// A node is in order if its height is one more than that of its higher child, its subtrees differ
// in height by at most one, and it holds a value or has two children.
// Invariant: for each node that is not in order, some thread will look at it under its lock and put
// it in order. A rule keeps this true: a thread that changes a node's child, height or value looks
// at the node before it frees the lock; if it changed the height of the node in a place, it then
// looks at the node above, under that one's lock. So reading a height while another thread changes
// it does no harm: that thread looks at the node above afterwards. When no operation is under way,
// every node is in order: the tree is a strict AVL tree, except that it has routing nodes, each
// with two children.
//
// This differs from the paper in two points, as the paper's rules leave a node out of order in rare
// interleavings. There, a thread that sees nothing wrong without a lock ends its repair; two
// threads that lower both children of a node at once can each read the other's old height. There,
// too, a rotation reports only the deepest of the nodes that it put out of order; if the deepest
// then keeps its height, no thread looks at those above. Here settle() holds the locks above, and
// leaves a place only when everything that it moved there is in order. So one node is left to look
// at: the parent. The price is one more lock per update, normally uncontended.
//
// Locks are taken from the parent to the child. Nodes are retired after the last lock is free, as a
// retirement may free many objects.
// Thread-safety: an occ_repair belongs to one operation of one thread.
// [Bronson10 §3.4-3.6]
#pragma once

#include "nearmalloc/reclaim/impl/occtree_node.hpp"

namespace near::reclaim::impl {

// Slots of the guard: the way down uses the first two in turn, the way up the other two.
inline constexpr unsigned occ_slot_down = 0;
inline constexpr unsigned occ_slot_up = 2;

// The other slot of the pair.
inline unsigned alternate(unsigned slot) { return slot ^ 1U; }

// Locks the parent of `node`, which is held or protected, and holds it in `slot`. Null if `node` is
// unlinked.
template <class Guard, class Node>
Node* lock_parent(Guard& guard, const Node& node, unsigned slot) {
  for (;;) {
    Node* const parent = node.parent();
    guard.hold(slot, parent);
    // The first test: an unlinked node's parent may be freed, and its pointer means something else.
    // The second: the node that was the parent before the hold may be freed too.
    if (node.is_unlinked()) return nullptr;
    if (node.parent() != parent || !still_holds(guard)) continue;
    parent->lock.lock();
    if (!node.is_unlinked() && node.parent() == parent) return parent;
    parent->lock.unlock();
  }
}

template <class Guard, class Node>
class occ_repair {
 public:
  explicit occ_repair(Guard& guard) : guard_(guard) {}
  occ_repair(const occ_repair&) = delete;
  occ_repair& operator=(const occ_repair&) = delete;
  ~occ_repair() {
    while (unlinked_ != nullptr) {
      Node* const node = unlinked_;
      unlinked_ = node->parent();
      guard_.retire(node);
    }
  }

  // Takes a node that holds no value and has at most one child out of the tree; it is retired when
  // this object ends. Both are locked and stay so.
  void unlink(Node& parent, Node& node) {
    Node* const left = node.child(left_side);
    Node* const heir = left != nullptr ? left : node.child(right_side);
    parent.replace_child(&node, heir);
    if (heir != nullptr) heir->set_parent(&parent);
    node.set_version(occ_unlinked);
    node.set_parent(unlinked_);
    unlinked_ = &node;
  }

  // Puts `node` in order, and the nodes above it as far as heights change. Requires that `node` is
  // locked and held; at the end nothing is locked. Holds the node's parent in `slot`.
  void climb(Node* node, unsigned slot) {
    while (node->parent() != nullptr &&
           !node->is_in_order()) {  // nothing is above the root's holder
      const bool only_height = !node->is_superfluous() && node->is_balanced();
      if (only_height) node->set_height(node->height_by_children());
      node->lock.unlock();
      Node* const parent = lock_parent(guard_, *node, slot);
      if (parent == nullptr) return;  // the thread that unlinked it looks at its parent
      if (!only_height) {
        node->lock.lock();
        settle(*parent, node);
      }
      node = parent;
      slot = alternate(slot);
    }
    node->lock.unlock();
  }

 private:
  // Puts the place of `node` in order: the node that is there in the end, and all that were moved.
  // Requires that both are locked; at the end only the parent is.
  void settle(Node& parent, Node* node) {
    for (;;) {
      if (node->is_superfluous()) {
        unlink(parent, *node);
        break;
      }
      const int tilt = node->tilt();
      if (tilt >= -1 && tilt <= 1) {
        node->set_height(node->height_by_children());
        break;
      }
      node = raise(parent, *node, tilt > 0 ? left_side : right_side);
    }
    node->lock.unlock();
  }

  // Rotates the child on `side`, which is too high, into the place of `node`, or else puts that
  // child in order first. Returns the node that is then in the place, locked.
  Node* raise(Node& parent, Node& node, occ_side side) {
    Node& child = *node.child(side);
    child.lock.lock();
    if (!child.is_in_order()) {
      settle(node, &child);
      return &node;
    }
    if (child.height_of(side) < child.height_of(other(side)))
      return raise_inner(parent, node, child, side);
    rotate(parent, node, child, side);
    settle(child, &node);
    return &child;
  }

  // The double rotation: the inner child of `child` rises twice.
  Node* raise_inner(Node& parent, Node& node, Node& child, occ_side side) {
    Node& inner = *child.child(other(side));
    inner.lock.lock();
    if (!inner.is_in_order()) {
      settle(child, &inner);
      settle(node, &child);
      return &node;
    }
    rotate(node, child, inner, other(side));
    rotate(parent, node, inner, side);
    settle(inner, &child);
    settle(inner, &node);
    return &inner;
  }

  // `child`, on `side` of `node`, takes its place. All three are locked. Only `node` shrinks: a
  // reader that is on its way through it, or arrives now, waits for the end or starts again.
  void rotate(Node& parent, Node& node, Node& child, occ_side side) {
    Node* const inner = child.child(other(side));
    const occ_version before = node.version();
    node.set_version(before + occ_shrinking);
    node.set_child(side, inner);
    if (inner != nullptr) inner->set_parent(&node);
    child.set_child(other(side), &node);
    node.set_parent(&child);
    parent.replace_child(&node, &child);
    child.set_parent(&parent);
    node.set_version(before + occ_shrunk);
  }

  Guard& guard_;
  Node* unlinked_ = nullptr;
};

}  // namespace near::reclaim::impl

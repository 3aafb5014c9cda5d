// Visits, frees and checks an occtree while no operation is under way.
//
// For every reachable node the check is that keys are in order; that the parent pointer is right;
// that the node is neither unlinked nor in the middle of a rotation; that its lock is free; and
// that the node is in order as occtree_repair.hpp defines it, without exception.
// Thread-safety: one thread, while no operation is under way.
#pragma once

#include <cstdio>

#include "nearmalloc/reclaim/impl/occtree_node.hpp"

namespace near::reclaim::impl {

template <class Node, class Visit>
void occ_visit(const Node* node, Visit& visit) {
  if (node == nullptr) return;
  occ_visit(node->child(left_side), visit);
  if (const auto value = node->value()) visit(node->key, *value);
  occ_visit(node->child(right_side), visit);
}

template <class Node>
void occ_free(Node* node) {
  if (node == nullptr) return;
  occ_free(node->child(left_side));
  occ_free(node->child(right_side));
  delete node;
}

template <class Node, class Key>
class occ_check {
 public:
  bool check(Node& holder) {
    expect(holder.child(left_side) == nullptr, "the holder has a left child", 0);
    expect(holder.parent() == nullptr, "the holder has a parent", 0);
    expect(holder.version() == 0, "the holder has shrunk", 0);
    expect_free(holder, 0);
    if (holder.child(right_side) != nullptr) subtree(holder, *holder.child(right_side), {}, 1);
    return faults_ == 0;
  }

 private:
  struct bounds {
    const Key* low = nullptr;
    const Key* high = nullptr;
  };

  void subtree(Node& parent, Node& node, bounds within, unsigned depth) {
    expect(within.low == nullptr || *within.low < node.key, "a key is too low", depth);
    expect(within.high == nullptr || node.key < *within.high, "a key is too high", depth);
    expect(node.parent() == &parent, "a parent pointer is wrong", depth);
    expect((node.version() & occ_unlinked) == 0, "an unlinked node is reachable", depth);
    expect((node.version() & occ_shrinking) == 0, "a rotation has no end", depth);
    expect(!node.is_superfluous(), "a routing node has less than two children", depth);
    expect(node.is_balanced(), "a node is out of balance", depth);
    expect(node.height() == node.height_by_children(), "a height is wrong", depth);
    expect_free(node, depth);
    Node* const left = node.child(left_side);
    Node* const right = node.child(right_side);
    if (left != nullptr) subtree(node, *left, {within.low, &node.key}, depth + 1);
    if (right != nullptr) subtree(node, *right, {&node.key, within.high}, depth + 1);
  }

  void expect_free(Node& node, unsigned depth) {
    const bool free = node.lock.try_lock();
    expect(free, "a lock is held", depth);
    if (free) node.lock.unlock();
  }

  void expect(bool right, const char* what, unsigned depth) {
    constexpr unsigned lines = 10;
    if (!right && faults_++ < lines)
      std::fprintf(stderr, "occtree: %s, at depth %u\n", what, depth);
  }

  size_t faults_ = 0;
};

}  // namespace near::reclaim::impl

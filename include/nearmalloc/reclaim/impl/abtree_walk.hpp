// Walks over an (a,b)-tree: one visits the entries in order, one checks every invariant.
//
// Thread-safety: one thread, while no other changes the tree.
#pragma once

#include <cstdio>

#include "nearmalloc/reclaim/impl/abtree_node.hpp"

namespace near::reclaim::impl {

template <class Node, class Visit>
void for_each_entry(const Node& node, Visit& visit) {
  for (unsigned i = 0; i < node.size; ++i) {
    if (node.is_leaf()) {
      visit(node.keys[i], node.value(i));
    } else {
      for_each_entry(*node.child(i), visit);
    }
  }
}

template <class Node>
void delete_subtree(Node* node) {
  for (unsigned i = 0; !node->is_leaf() && i < node->size; ++i) delete_subtree(node->child(i));
  delete node;
}

// Reports on stderr what is wrong, and counts it.
template <class Node>
class AbtreeChecker {
 public:
  using Key = typename Node::Key;

  // `balanced`: no violation may be left.
  AbtreeChecker(unsigned least, bool balanced) : least_(least), balanced_(balanced) {}

  bool check(const Node& root) {
    expect(root.is_leaf() || root.size >= 2, "the root has one child");
    expect(root.tagged == 0, "the root is tagged");
    check_node(root, nullptr, nullptr, 0, true);
    return faults_ == 0;
  }

 private:
  void expect(bool holds, const char* fault) {
    if (holds) return;
    ++faults_;
    std::fprintf(stderr, "abtree: %s\n", fault);
  }

  // Keys must lie in [low, high); null: no bound. `depth` counts the untagged nodes above.
  void check_node(const Node& node, const Key* low, const Key* high, int depth, bool is_root) {
    expect(!node.is_finalized(), "a node in the tree is finalized");
    expect(node.size <= Node::kMost, "a node is too large");
    expect(node.is_leaf() || node.size > 0, "an inner node is empty");
    expect(!node.tagged || (!node.is_leaf() && node.size == 2),
           "a tagged node has not two children");
    if (balanced_) {
      expect(!node.tagged, "a tagged node is left");
      expect(is_root || node.size >= least_, "a node is too small");
    }
    check_keys(node, low, high);
    if (node.is_leaf()) {
      if (leaf_depth_ < 0) leaf_depth_ = depth;
      expect(depth == leaf_depth_, "leaves at different depths");
      return;
    }
    for (unsigned i = 0; i < node.size; ++i) {
      check_node(*node.child(i), i > 0 ? &node.keys[i - 1] : low,
                 i + 1 < node.size ? &node.keys[i] : high, depth + (node.tagged ? 0 : 1), false);
    }
  }

  void check_keys(const Node& node, const Key* low, const Key* high) {
    const unsigned count = node.key_count();
    for (unsigned i = 0; i < count; ++i) {
      expect(i == 0 || node.keys[i - 1] < node.keys[i], "keys do not ascend");
      expect(low == nullptr || !(node.keys[i] < *low), "a key is below its range");
      expect(high == nullptr || node.keys[i] < *high, "a key is above its range");
    }
  }

  const unsigned least_;
  const bool balanced_;
  int leaf_depth_ = -1;
  size_t faults_ = 0;
};

}  // namespace near::reclaim::impl

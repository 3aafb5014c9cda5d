// The repair of an occtree alone: rotations and unlinking, from states that updates rarely leave.
#include "nearmalloc/reclaim/impl/occtree_repair.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "nearmalloc/reclaim/impl/occtree_check.hpp"
#include "reclaim/eager_domain.h"
#include "support/cases.h"

namespace near_test {
namespace {

using near::reclaim::waiting_lock;

// What concurrent updates may leave to one repair: ordered subtrees with very different heights.
class OcctreeRepair : public testing::Test {
 protected:
  using Node = near::reclaim::impl::occ_node<int64_t, uint64_t, waiting_lock>;

  // A tree of this height with as few or as many nodes as possible, with keys from `next_key_` on.
  Node* make(int height, bool is_full) {
    if (height <= 0) return nullptr;
    Node* const left = make(height - 1, is_full);
    const int64_t key = next_key_++;
    return join(left, key, make(height - (is_full ? 1 : 2), is_full));
  }
  Node* join(Node* left, int64_t key, Node* right) {
    Node* const node = new Node(key, 0);
    put(*node, left_side, left);
    put(*node, right_side, right);
    node->set_height(node->height_by_children());
    return node;
  }
  static void put(Node& parent, near::reclaim::impl::occ_side side, Node* child) {
    parent.set_child(side, child);
    if (child != nullptr) child->set_parent(&parent);
  }
  static size_t free_all(Node* node) {
    if (node == nullptr) return 0;
    const size_t below = free_all(node->child(left_side)) + free_all(node->child(right_side));
    delete node;
    return below + 1;
  }

  // Joins two subtrees, repairs, and looks at the result.
  void expect_repair(int left, int right, bool is_full, bool has_value) {
    EagerDomain domain;
    Node holder;
    Node* const lower = make(left, is_full);
    const int64_t key = next_key_++;
    Node* const node = join(lower, key, make(right, !is_full));
    const auto nodes = static_cast<size_t>(std::exchange(next_key_, 0));
    put(holder, right_side, node);
    if (!has_value) node->clear_value();
    EagerDomain::guard_type guard = domain.pin();
    guard.hold(0, node);
    node->lock.lock();
    near::reclaim::impl::occ_repair<EagerDomain::guard_type, Node>(guard).climb(node, 2);
    EXPECT_TRUE((near::reclaim::impl::occ_check<Node, int64_t>().check(holder)));
    const size_t left_over = free_all(holder.child(right_side));
    EXPECT_TRUE(left_over == nodes || (left_over == nodes - 1 && !has_value));
    count_cases();
  }

  static constexpr auto left_side = near::reclaim::impl::left_side;
  static constexpr auto right_side = near::reclaim::impl::right_side;
  int64_t next_key_ = 0;
};

TEST_F(OcctreeRepair, PutsAnyTwoSubtreesInOrder) {
  for (int left = 0; left <= 9; left++) {
    for (int right = 0; right <= 9; right++) {
      for (const bool is_full : {false, true}) {
        for (const bool has_value : {false, true}) {
          SCOPED_TRACE(testing::Message() << left << " " << right << is_full << has_value);
          expect_repair(left, right, is_full, has_value);
        }
      }
    }
  }
}

}  // namespace
}  // namespace near_test

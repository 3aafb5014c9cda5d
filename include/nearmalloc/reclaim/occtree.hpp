// occtree: a concurrent ordered map from integers to small values, as a binary search tree with
// optimistic readers and a lock per node, balanced as an AVL tree.
//
//   domain<debra<>> d;
//   occtree<int64_t, uint64_t, domain<debra<>>> tree(d);
//   tree.insert(1, 10);                            // pins by itself
//   tree.upsert(1, 11);                            // there or not
//   auto g = d.pin();
//   uint64_t sum = 0;
//   tree.range(g, 0, 100, [&](int64_t, uint64_t value) { sum += value; });
//
// An insert allocates one node of 56 bytes (for keys and values of 64 bits), or none if it finds a
// routing node with its key. An erase allocates nothing: it clears the value. If the node has at
// most one child, the erase unlinks and retires it; else it stays as a routing node. Only unlinked
// nodes are retired.
//
// Invariants. Let the range of a node be the keys that belong to its subtree.
// - A key is in the tree if and only if a node with that key is reachable and holds a value.
// - While a node's version is the same, its range only grows (occtree_node.hpp). A reader goes from
//   a node to its child in four steps: it reads the child; it reads the child's version; it tests
//   that the child is still the child; it tests that the node's version is still the one it saw on
//   arrival. Then at one moment the key was in the range of both. A missing child read before the
//   last of these tests proves that the key was absent at a moment of the operation.
// - Every access of these fields releases or acquires. So a reader that sees what a rotation has
//   written sees, when it next reads the version, that there was a rotation.
// - A value that is found needs no test: an unlinked node has none.
// - The operation that disturbed the balance restores it (occtree_repair.hpp): when no operation is
//   under way the tree is a strict AVL tree, whose routing nodes have two children.
// - A walk continues from the last node at which its way turned left, if that has neither shrunk
//   nor been unlinked. Then its right subtree still has all keys between that node and the node of
//   the left turn before it; so a key that is missing there is nowhere in the tree.
//
// A failed test starts again from the root, not from the ancestor as in the paper: no ancestor has
// to be protected. So a way down holds two nodes at any time, a way up two more. Where the scheme
// protects only what is held, a child is held before it is read. It is used only if afterwards it
// was still the child of a node that had neither shrunk nor been unlinked. No pointer moves from
// one slot to another, and nothing is held between two steps of `range`.
//
// Thread-safety: any thread; the constructor, the destructor and the functions for inspection
// (size, key_sum, check, for_each) one thread alone. The domain must outlive the tree.
// [Bronson10]
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "nearmalloc/reclaim/domain.hpp"
#include "nearmalloc/reclaim/impl/locks.hpp"
#include "nearmalloc/reclaim/impl/occtree_check.hpp"
#include "nearmalloc/reclaim/impl/occtree_node.hpp"
#include "nearmalloc/reclaim/impl/occtree_repair.hpp"
#include "nearmalloc/reclaim/impl/occtree_trail.hpp"
#include "nearmalloc/reclaim/impl/own_slots.hpp"
#include "nearmalloc/reclaim/impl/section.hpp"
#include "nearmalloc/reclaim/impl/self_pinning.hpp"
#include "nearmalloc/reclaim/impl/update.hpp"

namespace near::reclaim {
namespace impl {

template <class Key, class Value, class Domain, class Lock>
class guarded_occtree {
 public:
  using key_type = Key;
  using mapped_type = Value;
  using guard_type = typename Domain::guard_type;
  using node_type = impl::occ_node<Key, Value, Lock, impl::born_under<guard_type>>;

  explicit guarded_occtree(Domain& domain) : domain_(domain) {}
  ~guarded_occtree() { impl::occ_free(root()); }
  guarded_occtree(const guarded_occtree&) = delete;
  guarded_occtree& operator=(const guarded_occtree&) = delete;

  // False if the key is there; its value then stays. If memory runs out, nothing has changed.
  bool insert(guard_type& guard, const Key& key, const Value& value) {
    auto&& own = impl::own_slots(guard);
    std::unique_ptr<node_type> fresh;
    for (;;) {
      const place found = find_place(own, key);
      if (found.is_match) {
        const std::optional<bool> revived = revive(*found.node, value);
        if (revived) return *revived;
        continue;
      }
      if (fresh == nullptr) fresh = std::make_unique<node_type>(key, value);
      if (link(own, found, fresh)) return true;
    }
  }

  // Puts what f(there) returns in the place of what is there, in one step; `there` is the value, or
  // none. If f returns none, all stays as it is. `f` may be called more than once; the last call
  // counts. It runs under the lock of a node, so it must not use the tree, nor wait. If memory runs
  // out, or f throws, nothing has changed.
  template <class F>
  update_result<Value> update(guard_type& guard, const Key& key, F f) {
    auto&& own = impl::own_slots(guard);
    const impl::OneSection section(own);  // `f` may use the guard, and `found` has to stay
    std::unique_ptr<node_type> fresh;
    for (;;) {
      const place found = find_place(own, key);
      if (found.is_match) {
        const std::optional<update_result<Value>> updated = update_node(*found.node, f);
        if (updated) return *updated;
        continue;
      }
      const std::optional<Value> value = f(std::optional<Value>());
      if (!value) return {};
      fresh = std::make_unique<node_type>(key, *value);
      if (link(own, found, fresh)) return {std::nullopt, true};
    }
  }

  // Erases the key, and returns the value that it had; none: it was not there.
  std::optional<Value> take(guard_type& guard, const Key& key) {
    auto&& own = impl::own_slots(guard);
    const place found = find_place(own, key);
    // An unlinked node holds no value either, and never gets one.
    while (found.is_match && found.node->is_present()) {
      if (!found.node->has_both_children()) return clear_and_unlink(own, *found.node);
      std::optional<Value> taken;
      if (clear(*found.node, taken)) return taken;
    }
    return std::nullopt;
  }
  bool erase(guard_type& guard, const Key& key) { return take(guard, key).has_value(); }

  std::optional<Value> find(guard_type& guard, const Key& key) const {
    auto&& own = impl::own_slots(guard);
    const place found = find_place(own, key);
    return found.is_match ? found.node->value() : std::nullopt;
  }

  bool contains(guard_type& guard, const Key& key) const {
    auto&& own = impl::own_slots(guard);
    const place found = find_place(own, key);
    return found.is_match && found.node->is_present();
  }

  // Calls visit(key, value) for the keys of [low, high) in order, and returns how many those were.
  // Weakly consistent: each key was there at a moment of this call, and a key that was there
  // throughout is visited. Where the scheme protects only what is held, each step searches from the
  // root.
  template <class Visit>
  size_t range(guard_type& guard, const Key& low, const Key& high, Visit visit) const {
    auto&& own = impl::own_slots(guard);
    if constexpr (guard_type::protects_all) {
      const impl::OneSection section(own);  // `visit` may use the guard
      return walk(own, low, high, visit);
    } else {
      return search_each(own, low, high, visit);
    }
  }

  // Erases the keys in [low, high), each at a moment of its own; returns how many. A key that is
  // inserted meanwhile may stay.
  size_t erase_range(guard_type& guard, const Key& low, const Key& high) {
    return impl::erase_each(*this, guard, low, high);
  }

  template <class Visit>
  void for_each(Visit visit) const {
    impl::occ_visit(root(), visit);
  }

  // Whether every invariant holds; reports on stderr what does not.
  bool check() const { return impl::occ_check<node_type, Key>().check(holder_); }

 private:
  using occ_side = impl::occ_side;
  using occ_version = impl::occ_version;
  using repair = impl::occ_repair<guard_type, node_type>;

  // Where a way down ended: at the node of the key (`is_match`), or at the node that lacked the
  // child on `side`, where the key would be, while its version was `version`.
  struct place {
    node_type* node;
    occ_version version;
    occ_side side;
    bool is_match;
  };

  struct entry {
    Key key;
    std::optional<Value> value;
  };

  enum class turn { left, right, stop };
  enum class passage { open, changed, shrunk };

  node_type* root() const { return holder_.child(impl::right_side); }

  // Holds `child`, which was read from this place, if the scheme requires it. `open`: use it.
  static passage hold(guard_type& guard, unsigned slot, const place& at, node_type* child) {
    if constexpr (!guard_type::protects_all) {
      guard.hold(slot, child);
      const passage way = test(at, child);
      return way == passage::open && !impl::still_holds(guard) ? passage::changed : way;
    }
    return passage::open;
  }

  // Whether `child` is still where it was, in a node whose range has not shrunk.
  static passage test(const place& at, const node_type* child) {
    const bool is_same = at.node->child(at.side) == child;
    if (at.node->version() != at.version) return passage::shrunk;
    return is_same ? passage::open : passage::changed;
  }

  place top() const { return {&holder_, 0, impl::right_side, false}; }

  // One attempt at a way down. steer(node, version) returns where to turn; it may read the node.
  // Empty if a node on the way shrank: then the caller starts again.
  template <class Steer>
  std::optional<place> go_down(guard_type& guard, place at, Steer steer) const {
    unsigned slot = impl::occ_slot_down;
    for (;;) {
      node_type* const child = at.node->child(at.side);
      passage way = child == nullptr ? test(at, child) : hold(guard, slot, at, child);
      if (way == passage::open) {
        if (child == nullptr) return at;
        const occ_version version = child->version();
        if ((version & impl::occ_shrinking) != 0) {
          child->await_shrunk(version);
          continue;
        }
        way = test(at, child);
        if (way == passage::open) {
          const turn next = steer(*child, version);
          const occ_side side = next == turn::left ? impl::left_side : impl::right_side;
          at = {child, version, side, next == turn::stop};
          if (at.is_match) return at;
          slot = impl::alternate(slot);
        }
      }
      if (way == passage::shrunk) return std::nullopt;
    }
  }

  place find_place(guard_type& guard, const Key& key) const {
    const auto steer = [&](const node_type& node, occ_version) {
      if (key < node.key) return turn::left;
      return node.key < key ? turn::right : turn::stop;
    };
    for (;;) {
      if (const std::optional<place> found = go_down(guard, top(), steer)) return *found;
    }
  }

  // The first node after `bound`, or at it if `is_included`. It is the last at which the way down
  // turned left: nothing lies between it and the bound when the way ends, as ranges only grow.
  std::optional<entry> next_entry(guard_type& guard, Key bound, bool is_included) const {
    for (;;) {
      std::optional<entry> nearest;
      const auto steer = [&](const node_type& node, occ_version) {
        if (is_included ? node.key < bound : !(bound < node.key)) return turn::right;
        nearest = entry{node.key, node.value()};
        return turn::left;
      };
      if (go_down(guard, top(), steer)) return nearest;
    }
  }

  // `range` with a way down from the root for each node.
  template <class Visit>
  size_t search_each(guard_type& guard, Key low, const Key& high, Visit& visit) const {
    size_t visited = 0;
    std::optional<entry> next = next_entry(guard, low, true);
    while (next && next->key < high) {
      if (next->value) {
        visit(next->key, *next->value);
        visited++;
      }
      next = next_entry(guard, next->key, false);
    }
    return visited;
  }

  // `range` under a scheme that protects every node that the walk has reached.
  template <class Visit>
  size_t walk(guard_type& guard, Key bound, const Key& high, Visit& visit) const {
    impl::occ_trail<node_type> trail;
    bool is_included = true;  // the bound itself counts
    const auto steer = [&](node_type& node, occ_version version) {
      if (is_included ? node.key < bound : !(bound < node.key)) return turn::right;
      trail.push({&node, version});
      return turn::left;
    };
    size_t visited = 0;
    place from = top();
    for (;;) {
      if (!go_down(guard, from, steer)) {
        trail.clear();
      } else if (trail.is_empty() && from.node == &holder_) {
        return visited;
      }
      from = top();
      if (trail.is_empty()) continue;
      const auto [node, version] = trail.pop();
      const std::optional<Value> value = node->value();
      if (node->version() != version) {  // it shrank or was unlinked: restart from the root
        trail.clear();
        continue;
      }
      if (!(node->key < high)) return visited;
      if (value) {
        visit(node->key, *value);
        visited++;
      }
      bound = node->key;
      is_included = false;
      from = {node, version, impl::right_side, false};
    }
  }

  // Gives the routing node a value. Empty if the node was unlinked.
  static std::optional<bool> revive(node_type& node, const Value& value) {
    if (node.is_present()) return false;
    const std::lock_guard locked(node.lock);
    if (node.is_unlinked()) return std::nullopt;
    if (node.is_present()) return false;
    node.set_value(value);
    return true;
  }

  // Empty if the node was unlinked.
  template <class F>
  static std::optional<update_result<Value>> update_node(node_type& node, F& f) {
    const std::lock_guard locked(node.lock);
    if (node.is_unlinked()) return std::nullopt;
    const std::optional<Value> there = node.value();
    const std::optional<Value> fresh = f(there);
    if (fresh) node.set_value(*fresh);
    return update_result<Value>{there, fresh.has_value()};
  }

  // Puts `fresh` where a child was missing, unless the place has changed.
  bool link(guard_type& guard, const place& at, std::unique_ptr<node_type>& fresh) {
    at.node->lock.lock();
    if (test(at, nullptr) != passage::open) {
      at.node->lock.unlock();
      return false;
    }
    fresh->set_parent(at.node);
    at.node->set_child(at.side, fresh.release());
    repair(guard).climb(at.node, impl::occ_slot_up);
    return true;
  }

  // Makes the node a routing node; `taken` is the value that it had, if any. False if it has lost a
  // child meanwhile, and can be unlinked.
  static bool clear(node_type& node, std::optional<Value>& taken) {
    const std::lock_guard locked(node.lock);
    if (!node.is_present()) return true;
    if (!node.has_both_children()) return false;
    taken = node.value();
    node.clear_value();
    return true;
  }

  std::optional<Value> clear_and_unlink(guard_type& guard, node_type& node) {
    repair repairing(guard);
    node_type* const parent = impl::lock_parent(guard, node, impl::occ_slot_up);
    if (parent == nullptr) return std::nullopt;
    node.lock.lock();
    const std::optional<Value> taken = node.value();
    if (taken) node.clear_value();
    const bool is_unlinked = taken && !node.has_both_children();
    if (is_unlinked) repairing.unlink(*parent, node);
    node.lock.unlock();
    if (is_unlinked) {
      repairing.climb(parent, impl::alternate(impl::occ_slot_up));
    } else {
      parent->lock.unlock();
    }
    return taken;
  }

 protected:
  Domain& domain_;

 private:
  mutable node_type holder_;  // above the root; its own version stays 0
};

}  // namespace impl

// Adds operations without a guard, which pin by themselves; size and key_sum.
template <class Key, class Value, class Domain, class Lock = waiting_lock>
class occtree : public impl::self_pinning_tree<impl::guarded_occtree<Key, Value, Domain, Lock>> {
 public:
  using impl::self_pinning_tree<impl::guarded_occtree<Key, Value, Domain, Lock>>::self_pinning_tree;
};

}  // namespace near::reclaim

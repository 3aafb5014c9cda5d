// A range of an (a,b)-tree as it was at one moment.
//
// A scan collects the leaves of the range, going down from the root for each, and notes each inner
// node that it passes with the node's info word, read before the child. Then it looks whether every
// noted node still has this info.
//
// Invariant: an info word changes before a child of its node does, and in one node it never takes
// a value again. So a node that has, unfrozen, the same info twice had the same children between
// the two reads. The entry node is never replaced; so if its info is the same its child is the same
// node, not another at the same address, and so on downward. All first reads come before all second
// ones: at the moment between them the noted nodes were the way from the entry to the leaves of the
// range, and the leaves, which never change, had the entries of the range.
//
// If nodes stay valid under a guard, the second look reads their info once more. If the guard
// protects only what is held, a noted node may be gone and a new one be at its address, with the
// same info. So the second look goes down the same ways, and holds each node. Once it holds a
// child, it reads the info of the parent again: if that is still the same, the parent has had the
// same child since the first look, and the child held is that child. By induction from the entry
// node, each node held is the noted one.
// So each scan has a moment in the order in which memory changes, which is one order for all
// threads on x86-64 and aarch64. (C++'s acquire and release alone would allow that two scans see
// changes of two nodes in different orders.)
// Thread-safety: any thread under a guard of the tree's domain; a scan belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "nearmalloc/reclaim/impl/abtree_node.hpp"

namespace near::reclaim::impl {

template <class Tree>
class AbtreeScan {
 public:
  using Node = typename Tree::Node;
  using Place = typename Tree::Place;
  using Key = typename Node::Key;
  using Value = typename Node::Value;
  using Guard = typename Tree::guard_type;

  AbtreeScan(const Tree& tree, Guard& guard) : tree_(tree), guard_(guard) {}

  // Returns the entries of [low, high) as they were at one moment of this call.
  const std::vector<std::pair<Key, Value>>& run(const Key& low, const Key& high) {
    for (;;) {
      if (collect(low, high) && is_unchanged(low, high)) return entries_;
    }
  }

 private:
  // Whether a node that was reached stays valid until the guard ends.
  static constexpr bool keeps_nodes() {
    if constexpr (requires { Guard::has_births; }) return Guard::protects_all || Guard::has_births;
    return Guard::protects_all;
  }

  struct Note {
    const Node* node;
    uint64_t info;
    friend bool operator==(const Note&, const Note&) = default;
  };

  bool collect(const Key& low, const Key& high) {
    notes_.clear();
    entries_.clear();
    const auto keep = [this](const Note& note) {
      notes_.push_back(note);
      return true;
    };
    return go_down_each(low, high, keep, [&](const Node& leaf, const Key& from) {
      for (unsigned i = leaf.place_of(from); i < leaf.size && leaf.keys[i] < high; ++i) {
        entries_.emplace_back(leaf.keys[i], leaf.value(i));
      }
    });
  }

  bool is_unchanged(const Key& low, const Key& high) {
    if constexpr (keeps_nodes()) {
      for (const Note& note : notes_) {
        if (note.node->linked_info() != note.info) return false;
      }
      return true;
    } else {
      size_t next = 0;
      const auto is_same = [&](const Note& note) {
        return next < notes_.size() && notes_[next++] == note;
      };
      return go_down_each(low, high, is_same, [](const Node&, const Key&) {}) &&
             next == notes_.size();
    }
  }

  // Goes down to each leaf of the range, and calls at_leaf(leaf, the least key of interest). False:
  // a node on the way was changing or was cut off, or visit(note) returned false.
  template <class Visit, class AtLeaf>
  bool go_down_each(const Key& low, const Key& high, Visit visit, AtLeaf at_leaf) {
    for (std::optional<Key> from = low; from.has_value() && *from < high;) {
      std::optional<Key> next;
      Place place;
      bool good = note(tree_.entry_, visit);
      const auto until = [&](const Place& at) {
        at.note_next(next);
        if (at.parent->linked_info() != noted_) good = false;
        good = good && (at.node->is_leaf() || note(*at.node, visit));
        return !good;
      };
      if (!good || !tree_.try_descend(guard_, *from, until, place) || !good) return false;
      at_leaf(*place.node, *from);
      from = next;
    }
    return true;
  }

  // Called before a child of the node is read.
  template <class Visit>
  bool note(const Node& node, Visit& visit) {
    const uint64_t info = node.linked_info();
    if (tree_.scx_.is_in_progress(info)) {
      tree_.help(guard_, info);
      return false;
    }
    noted_ = info;
    return !node.is_finalized() && visit(Note{&node, info});
  }

  const Tree& tree_;
  Guard& guard_;
  uint64_t noted_ = 0;  // the info that was noted last
  std::vector<Note> notes_;
  std::vector<std::pair<Key, Value>> entries_;
};

}  // namespace near::reclaim::impl

// The contents of new nodes of the (a,b)-tree: entries of one or two nodes are copied, edited, then
// cut into nodes. Every rebalancing step uses it.
//
// Invariant: as in a node, a draft of a leaf has as many keys as words; a draft of inner nodes has
// one key less than children.
// Thread-safety: only the thread that made it. The nodes that it copies from are linked (scx.hpp),
// so an SCX that succeeds proves that the copy was right.
#pragma once

#include <algorithm>
#include <array>

#include "nearmalloc/reclaim/impl/abtree_node.hpp"

namespace near::reclaim::impl {

template <class Node>
class AbtreeDraft {
 public:
  using Key = typename Node::Key;
  using Word = typename Node::Word;

  explicit AbtreeDraft(const Node& first) : kind_(first.kind) { append_entries(first); }

  // Joins two neighbours under one parent; `separator` is the key between them.
  AbtreeDraft(const Node& left, const Key& separator, const Node& right) : AbtreeDraft(left) {
    if (!right.is_leaf()) keys_[size_ - 1] = separator;
    append_entries(right);
  }

  unsigned size() const { return size_; }

  // Requires a draft of a leaf.
  void insert(unsigned place, const Key& key, Word word) {
    open_gap(place, place, 1);
    keys_[place] = key;
    words_[place] = word;
  }

  // Requires a draft of inner nodes: the children of `inner` take the place of child `index`.
  void expand(unsigned index, const Node& inner) {
    open_gap(index, index, inner.size - 1);
    for (unsigned i = 0; i < inner.size - 1; ++i) keys_[index + i] = inner.keys[i];
    for (unsigned i = 0; i < inner.size; ++i) words_[index + i] = inner.word(i);
  }
  void replace(unsigned index, Node* child) { words_[index] = Node::word_of(child); }
  void set_separator(unsigned after, const Key& key) { keys_[after] = key; }
  // Removes child `index` and the key before it.
  void remove(unsigned index) {
    std::copy(&keys_[index], &keys_[size_ - 1], &keys_[index - 1]);
    std::copy(&words_[index + 1], words_.data() + size_, &words_[index]);
    --size_;
  }

  // The least key of the part from word `at` on: the separator that a parent needs.
  const Key& separator(unsigned at) const { return keys_[kind_ == Node::Kind::leaf ? at : at - 1]; }

  // Makes a node of `count` words from `from` on.
  Node* cut(AbtreeFresh<Node>& fresh, unsigned from, unsigned count) const {
    Node* const node = fresh.make(kind_, false, count);
    std::copy_n(keys_.data() + from, node->key_count(), node->keys.begin());
    for (unsigned i = 0; i < count; ++i) node->set_word(i, words_[from + i]);
    return node;
  }

  // Makes nodes of everything: one node; or two halves, under a parent with just these children.
  Node* whole(AbtreeFresh<Node>& fresh) const { return cut(fresh, 0, size_); }
  Node* halves(AbtreeFresh<Node>& fresh, bool tagged) const {
    const unsigned middle = size_ / 2;
    Node* const top = fresh.make(Node::Kind::inner, tagged, 2);
    top->keys[0] = separator(middle);
    top->set_word(0, Node::word_of(cut(fresh, 0, middle)));
    top->set_word(1, Node::word_of(cut(fresh, middle, size_ - middle)));
    return top;
  }

 private:
  static constexpr unsigned kRoom = 2 * Node::kMost;

  void append_entries(const Node& node) {
    std::copy_n(node.keys.begin(), node.key_count(), keys_.data() + size_);
    for (unsigned i = 0; i < node.size; ++i) words_[size_ + i] = node.word(i);
    size_ += node.size;
  }

  void open_gap(unsigned key_place, unsigned word_place, unsigned width) {
    std::copy_backward(&keys_[key_place], keys_.data() + size_, keys_.data() + size_ + width);
    std::copy_backward(&words_[word_place], words_.data() + size_, words_.data() + size_ + width);
    size_ += width;
  }

  const typename Node::Kind kind_;
  unsigned size_ = 0;
  std::array<Key, kRoom> keys_{};
  std::array<Word, kRoom> words_{};
};

// Makes the replacement of `parent` when `both` is what its children `left` and the next one hold.
// They become one node if `both` has fewer than `enough` entries. If that leaves a root with one
// child, the child replaces the root.
template <class Node>
Node* replace_both(AbtreeFresh<Node>& fresh, const Node& parent, unsigned left,
                   const AbtreeDraft<Node>& both, unsigned enough, bool is_root) {
  AbtreeDraft<Node> draft(parent);
  if (both.size() >= enough) {
    const unsigned middle = both.size() / 2;
    draft.replace(left, both.cut(fresh, 0, middle));
    draft.replace(left + 1, both.cut(fresh, middle, both.size() - middle));
    draft.set_separator(left, both.separator(middle));
    return draft.whole(fresh);
  }
  Node* const one = both.whole(fresh);
  if (is_root && parent.size == 2) return one;
  draft.replace(left, one);
  draft.remove(left + 1);
  return draft.whole(fresh);
}

}  // namespace near::reclaim::impl

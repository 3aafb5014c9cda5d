// A node of the (a,b)-tree: a leaf with keys and values, or an inner node with keys and children.
//
// Invariant: size counts the values of a leaf and the children of an inner node, which has one key
// less; keys ascend; child i leads to the keys k with keys[i - 1] <= k < keys[i]. Once published, a
// leaf never changes. In a published inner node only these change: info; a child, between freezing
// and commit of the SCX whose tag is in info; the mark, once, before the node is cut off.
// The header has 32 bytes, as in the trees of the literature, so that a node falls in the same size
// class: 208 bytes for B = 11, 240 for B = 13, with words of 64 bits.
// Thread-safety: only the thread that made it until it is published; then any thread under a guard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/born.hpp"

namespace near::reclaim::impl {

template <class KeyType, class ValueType, unsigned B, class Base = unborn>
struct alignas(16) AbtreeNode : Base {
  using Key = KeyType;
  using Value = ValueType;
  using Word = uintptr_t;  // a value or a child
  static constexpr unsigned kMost = B;
  static_assert(std::is_trivially_copyable_v<Key> && std::is_default_constructible_v<Key>);
  static_assert(std::is_trivially_copyable_v<Value> && std::is_default_constructible_v<Value>);
  static_assert(sizeof(Value) <= sizeof(Word), "put a pointer in the tree instead");

  enum class Kind : uint32_t { leaf, inner };

  AbtreeNode(Kind kind_of_node, bool is_tagged, unsigned words_to_come)
      : kind(kind_of_node), tagged(is_tagged), size(words_to_come) {}

  bool is_leaf() const { return kind == Kind::leaf; }
  unsigned key_count() const { return is_leaf() ? size : size - 1; }

  // Returns which child to follow.
  unsigned child_for(const Key& key) const {
    unsigned i = 0;
    while (i < size - 1 && !(key < keys[i])) ++i;
    return i;
  }

  // In a leaf: the first place whose key is not less.
  unsigned place_of(const Key& key) const {
    unsigned i = 0;
    while (i < size && keys[i] < key) ++i;
    return i;
  }
  bool has_at(unsigned place, const Key& key) const { return place < size && !(key < keys[place]); }

  // pairs: abtree-child
  Word word(unsigned i) const { return words[i].load(kAcquire); }
  AbtreeNode* child(unsigned i) const { return reinterpret_cast<AbtreeNode*>(word(i)); }
  Value value(unsigned i) const {
    const Word bits = words[i].load(kRelaxed);  // relaxed: never changes
    Value value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  // In a leaf: the value of the key, whose place is `place_of(key)`; none: it is not there.
  std::optional<Value> value_if(unsigned place, const Key& key) const {
    return has_at(place, key) ? std::optional<Value>(value(place)) : std::nullopt;
  }

  static Word word_of(const Value& value) {
    Word word = 0;
    std::memcpy(&word, &value, sizeof value);
    return word;
  }
  static Word word_of(AbtreeNode* child) { return reinterpret_cast<Word>(child); }

  // Called before the node is published.
  void set_word(unsigned i, Word word) {
    // relaxed: publishing the node releases
    words[i].store(word, kRelaxed);
  }

  // The steps of SCX on a node. freeze: true if the node is, or was, frozen for `tag`.
  bool freeze(uint64_t seen, uint64_t tag) {
    // pairs: abtree-info
    return info.compare_exchange_strong(seen, tag, kAcqRel, kAcquire) || seen == tag;
  }
  void finalize() { marked.store(1, kRelease); }  // pairs: abtree-mark
  void swing(unsigned index, AbtreeNode* from, AbtreeNode* to) {
    Word old = word_of(from);
    // pairs: abtree-child
    words[index].compare_exchange_strong(old, word_of(to), kAcqRel, kAcquire);
  }

  uint64_t linked_info() const {
    return info.load(kAcquire);  // pairs: abtree-info
  }
  bool is_finalized() const {
    return marked.load(kAcquire) != 0;  // pairs: abtree-mark
  }

  Atomic<uint64_t> info{0};  // the tag of the SCX that froze the node last
  Atomic<uint32_t> marked{0};
  const Kind kind;
  const uint32_t tagged;  // 1: the paths to the leaves below are too long by one
  const uint32_t size;
  std::array<Key, B> keys;
  std::array<Atomic<Word>, B> words;
};

static_assert(kModel || sizeof(AbtreeNode<int64_t, int64_t, 11>) == 208);
static_assert(kModel || sizeof(AbtreeNode<int64_t, void*, 13>) == 240);

// Where a search ended: parent->child(index) was node, grand->child(parent_index) parent.
template <class Node>
struct AbtreePlace {
  Node* grand = nullptr;
  Node* parent = nullptr;
  Node* node = nullptr;
  unsigned parent_index = 0;
  unsigned index = 0;

  // On the way down, the last key noted is the least one beyond the node; none: it is the last.
  void note_next(std::optional<typename Node::Key>& next) const {
    if (index + 1 < parent->size) next = parent->keys[index];
  }
};

// A copy of the entries of one leaf from some key on.
template <class Node>
struct AbtreeEntries {
  AbtreeEntries(const Node& leaf, const typename Node::Key& from) {
    for (unsigned i = leaf.place_of(from); i < leaf.size; ++i, ++count) {
      keys[count] = leaf.keys[i];
      values[count] = leaf.value(i);
    }
  }

  unsigned count = 0;
  std::array<typename Node::Key, Node::kMost> keys{};
  std::array<typename Node::Value, Node::kMost> values{};
};

// Nodes that are not published yet. The destructor deletes them, unless they were published.
template <class Node>
class AbtreeFresh {
 public:
  AbtreeFresh() = default;
  ~AbtreeFresh() {
    for (unsigned i = 0; i < count_; ++i) delete nodes_[i];
  }
  AbtreeFresh(const AbtreeFresh&) = delete;
  AbtreeFresh& operator=(const AbtreeFresh&) = delete;

  Node* make(typename Node::Kind kind, bool tagged, unsigned size) {
    return nodes_[count_++] = new Node(kind, tagged, size);
  }
  void published() { count_ = 0; }

 private:
  static constexpr unsigned kMost = 3;
  std::array<Node*, kMost> nodes_{};
  unsigned count_ = 0;
};

// Copies `leaf`, with one more entry before `place`; the leaf has room.
template <class Node>
Node* copy_with(AbtreeFresh<Node>& fresh, const Node& leaf, unsigned place,
                const typename Node::Key& key, typename Node::Word word) {
  Node* const copy = fresh.make(Node::Kind::leaf, false, leaf.size + 1);
  for (unsigned i = 0; i < place; ++i) {
    copy->keys[i] = leaf.keys[i];
    copy->set_word(i, leaf.word(i));
  }
  copy->keys[place] = key;
  copy->set_word(place, word);
  for (unsigned i = place; i < leaf.size; ++i) {
    copy->keys[i + 1] = leaf.keys[i];
    copy->set_word(i + 1, leaf.word(i));
  }
  return copy;
}

// Copies `leaf` without the entries from `first` to before `end`.
template <class Node>
Node* copy_without(AbtreeFresh<Node>& fresh, const Node& leaf, unsigned first, unsigned end) {
  const unsigned gone = end - first;
  Node* const copy = fresh.make(Node::Kind::leaf, false, leaf.size - gone);
  for (unsigned i = 0; i + gone < leaf.size; ++i) {
    const unsigned from = i < first ? i : i + gone;
    copy->keys[i] = leaf.keys[from];
    copy->set_word(i, leaf.word(from));
  }
  return copy;
}

}  // namespace near::reclaim::impl

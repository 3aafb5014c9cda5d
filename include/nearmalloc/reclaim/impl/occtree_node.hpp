// A node of the occtree: its fields, the lock that guards each, and what their order of access
// promises.
//
// `version` = 4 * (shrinks completed) + 2 * (shrinks now) + 1 * (unlinked for good). A node shrinks
// when a rotation moves it down: some keys that were below it no longer are. While its version is
// the same, every key that could be found or put below it still can.
// Invariants: an unlinked node holds no value, and nothing reachable points to it; child and parent
// pointers agree whenever the parent's lock is free. Links are written before the version calls a
// node unlinked, so a reader that sees it unlinked also sees its parent without it.
//
// field             written under the lock of     read
// version, child    the node                      by any thread
// present, value    the node                      by any thread
// height            the node                      under the lock of the node or of its parent
// parent            the parents, old and new      by any thread; it names the parent while
//                                                 the node is not unlinked, and then the next one
//                                                 of a list of unlinked nodes
// A locked node cannot be unlinked, nor can its children: both need its lock. So the thread that
// holds the lock may follow the child pointers under every scheme.
// [Bronson10 §3]
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/born.hpp"
#include "nearmalloc/reclaim/impl/locks.hpp"

namespace near::reclaim::impl {

enum occ_side : unsigned { left_side, right_side };

inline occ_side other(occ_side side) { return side == left_side ? right_side : left_side; }

using occ_version = uint64_t;
inline constexpr occ_version occ_unlinked = 1;
inline constexpr occ_version occ_shrinking = 2;
inline constexpr occ_version occ_shrunk = 4;  // added by each shrink

template <class Key, class Value, class Lock, class Base = unborn>
class occ_node : public Base {
  static_assert(std::is_trivially_copyable_v<Key>);
  static_assert(std::is_trivially_copyable_v<Value> && Atomic<Value>::is_always_lock_free,
                "a value is trivially copyable, of 1, 2, 4 or 8 bytes");

 public:
  // Makes the node above the root: it has no value, its right child is the root, and its key is
  // never read.
  occ_node() : key(), value_(Value()) {}
  occ_node(const Key& new_key, const Value& value) : key(new_key), value_(value), present_(true) {}
  occ_node(const occ_node&) = delete;
  occ_node& operator=(const occ_node&) = delete;

  occ_node* child(occ_side side) const {
    return child_[side].load(kAcquire);  // pairs: occ-link
  }
  void set_child(occ_side side, occ_node* child) {
    child_[side].store(child, kRelease);  // pairs: occ-link
  }
  void replace_child(const occ_node* old, occ_node* by) {
    set_child(child(left_side) == old ? left_side : right_side, by);
  }

  occ_node* parent() const { return parent_.load(kAcquire); }  // pairs: occ-parent
  void set_parent(occ_node* parent) {
    parent_.store(parent, kRelease);  // pairs: occ-parent
  }

  occ_version version() const {
    return version_.load(kAcquire);  // pairs: occ-version
  }
  void set_version(occ_version version) {
    version_.store(version, kRelease);  // pairs: occ-version
  }
  bool is_unlinked() const { return (version() & occ_unlinked) != 0; }

  // Waits while the version is `seen`, which is that of a shrinking node.
  void await_shrunk(occ_version seen) {
    constexpr int spins = kModel ? 2 : 100;
    for (int i = 0; i < spins; i++) {
      if (version() != seen) return;
      pause();
    }
    lock.lock();  // as the rotating thread holds it until the end
    lock.unlock();
  }

  bool is_present() const { return present_.load(kAcquire); }  // pairs: occ-present

  // The value that the node held at some moment of this call, if it held one. `present` is read on
  // both sides of the value: if both are true, the value was there at the first read, at the
  // second, or between them.
  std::optional<Value> value() const {
    if (!is_present()) return std::nullopt;
    const Value found = value_.load(kAcquire);  // pairs: occ-value
    return is_present() ? std::optional<Value>(found) : std::nullopt;
  }
  void set_value(const Value& value) {
    value_.store(value, kRelease);   // pairs: occ-value
    present_.store(true, kRelease);  // pairs: occ-present
  }
  void clear_value() { present_.store(false, kRelease); }  // pairs: occ-present

  int height() const {
    // relaxed: a thread that changes a height looks at the parent afterwards, under that one's lock
    return height_.load(kRelaxed);
  }
  void set_height(int height) {
    // relaxed: see height()
    height_.store(static_cast<int8_t>(height), kRelaxed);
  }

  int height_of(occ_side side) const {
    const occ_node* const below = child(side);
    return below == nullptr ? 0 : below->height();
  }
  int height_by_children() const {
    const int left = height_of(left_side);
    const int right = height_of(right_side);
    return 1 + (left > right ? left : right);
  }
  // How much higher the left subtree is.
  int tilt() const { return height_of(left_side) - height_of(right_side); }
  bool is_balanced() const { return tilt() >= -1 && tilt() <= 1; }

  bool has_both_children() const {
    return child(left_side) != nullptr && child(right_side) != nullptr;
  }
  // A routing node with at most one child, which can take its place.
  bool is_superfluous() const { return !has_both_children() && !is_present(); }
  bool is_in_order() const {
    return !is_superfluous() && is_balanced() && height() == height_by_children();
  }

  const Key key;

 private:
  Atomic<Value> value_;
  Atomic<occ_version> version_{0};
  Atomic<occ_node*> child_[2] = {nullptr, nullptr};
  Atomic<occ_node*> parent_{nullptr};

 public:
  Lock lock;

 private:
  Atomic<int8_t> height_{1};
  Atomic<bool> present_{false};
};

static_assert(kModel || sizeof(occ_node<int64_t, uint64_t, waiting_lock>) == 56);

}  // namespace near::reclaim::impl

// Where a walk through an occtree continues: the nodes at which its way down turned left, each with
// the version that it had then. When the left subtree of one is done, that node is next.
// Invariant: the nearest is on top. When there is no room, the farthest is dropped, so an empty
// trail does not mean that the walk is at its end.
// Thread-safety: only the walking thread, under the guard of its walk.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace near::reclaim::impl {

template <class Node>
class occ_trail {
 public:
  struct step {
    Node* node;
    uint64_t version;
  };

  bool is_empty() const { return used_ == 0; }
  void clear() { used_ = 0; }

  void push(const step& next) {
    if (used_ == steps_.size()) {
      std::copy(steps_.begin() + 1, steps_.end(), steps_.begin());
      used_--;
    }
    steps_[used_++] = next;
  }
  step pop() { return steps_[--used_]; }

 private:
  std::array<step, 32> steps_;
  size_t used_ = 0;
};

}  // namespace near::reclaim::impl

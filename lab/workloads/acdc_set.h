// A set of objects that are allocated, read and freed together, chained by links inside them.
//
// While a set lives, the first two words of its objects are links: to the next object of a list, or
// to the left and right subtree of a tree, whose objects were allocated in depth-first,
// left-to-right order. A link has the set's tag in its upper 16 bits; an object whose links have
// another tag was overwritten, and its links are not followed. unlink() compares every link with
// its right value and restores the stamp only if they agree, so a wrong link breaks the checksum.
// Invariant between link() and unlink(): following the links visits every object exactly once.
// Thread-safety: only the allocating thread, up to the barrier of the quantum; then every reader
// reads, and the last reader unlinks and frees. Source: [Aigner15 §7.6].
#pragma once

#include <atomic>
#include <cstdint>

#include "block.h"

namespace acdc {

struct Object {
  workload::Block block;
  uint64_t first, second;  // the words that the links replace
};

struct Set {
  Object* objects;
  size_t count;
  size_t last_quantum;  // at the end of this one it is free
  uint16_t tag;
  bool is_list;
  bool is_shared;
  std::atomic<size_t> readers;

  void link();
  // Follows the links, in a list from first to last and in a tree from right to left, and reads a
  // byte of every cache line. Returns how many objects it visited: `count`, unless something was
  // overwritten.
  size_t read() const;
  void unlink();

 private:
  size_t read_list() const;
  size_t read_tree() const;
};

}  // namespace acdc

// The addresses that mmap gives: the lowest free range of one arena, the same in each run.
#pragma once

#include <cstddef>
#include <cstdint>

namespace near::manycore {

class Arena {
 public:
  static constexpr uintptr_t kBegin = uintptr_t{1} << 44;
  static constexpr uintptr_t kEnd = uintptr_t{6} << 44;

  // The begin of a free range, which is taken; 0 if there is none.
  uintptr_t take(size_t bytes);
  // Takes these addresses, as far as they are free and in the arena.
  void take_at(uintptr_t begin, size_t bytes);
  void give(uintptr_t begin, size_t bytes);

 private:
  static constexpr unsigned kMost = 1 << 16;
  struct Range {
    uintptr_t begin, end;
  };
  void make();
  void insert(unsigned at, Range range);
  void erase(unsigned at);

  Range* free_ = nullptr;  // in the order of addresses; no two touch
  unsigned count_ = 0;
};

}  // namespace near::manycore

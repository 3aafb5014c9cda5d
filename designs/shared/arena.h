// Address space that is reserved once and handed out from its start; readable and writable up to a
// mark that only rises.
// Invariant: start <= taken <= committed <= end.
// Thread-safety: `reserve` or `use` once at start; the rest any thread, without a lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"

namespace near::design {

class Arena {
 public:
  // Reserves `wanted` bytes, or half of it, and so on down to `least`. `alignment`: a power of two.
  // `step`: how much is committed at a time, a multiple of every page size.
  bool reserve(size_t wanted, size_t least, size_t alignment, size_t step);

  // Replaces `reserve`: uses address space that is reserved already, a multiple of every page size.
  void use(uintptr_t start, size_t size, size_t step) {
    start_ = start;
    size_ = size;
    step_ = step;
  }

  // `bytes` of zeroed, never-used memory, at a multiple of the sizes requested so far. Returns null
  // and takes nothing if the arena is at its end or memory is refused.
  void* take(size_t bytes);

  bool contains(const void* pointer) const {
    return reinterpret_cast<uintptr_t>(pointer) - start_ < size_;
  }
  // Whether `take` has handed out the byte there.
  bool has_given(const void* pointer) const {
    return reinterpret_cast<uintptr_t>(pointer) - start_ < taken();
  }
  uintptr_t start() const { return start_; }
  size_t size() const { return size_; }
  size_t taken() const { return taken_.load(kRelaxed); }          // relaxed: a statistic
  size_t committed() const { return committed_.load(kRelaxed); }  // relaxed: a statistic

 private:
  bool commit_up_to(size_t end);

  uintptr_t start_ = 0;
  size_t size_ = 0;
  size_t step_ = 0;
  Atomic<size_t> taken_{0};
  Atomic<size_t> committed_{0};
};

}  // namespace near::design

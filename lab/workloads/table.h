// The tables in which a workload records its blocks: vectors whose memory is mapped, not allocated.
//
// Invariant: in a workload's measured region malloc serves only its blocks and what the C++ runtime
// needs for threads. So bookkeeping costs no allocator any time, and an allocator that is wrong, or
// recycles by design (bench/limit.c), cannot damage it. Thread-safety: only the table's owner.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

#include "block.h"
#include "marking.h"

namespace workload {

template <typename T>
struct Mapped {
  using value_type = T;

  Mapped() = default;
  template <typename U>
  Mapped(const Mapped<U>&) {}

  T* allocate(size_t count) {
    void* const mapped = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    marking::exclude(mapped, count * sizeof(T));
    return static_cast<T*>(mapped);
  }
  void deallocate(T* items, size_t count) {
    marking::include(items, count * sizeof(T));
    munmap(items, count * sizeof(T));
  }

  bool operator==(const Mapped&) const = default;
};

template <typename T>
using Table = std::vector<T, Mapped<T>>;
using Blocks = Table<Block>;

}  // namespace workload

// The calls under test, and how NEAR_FUZZ_FAULT changes their results: faults that an allocator may
// have, to show that the checks of api_table.cc notice.
// Invariant: without the variable a call is the library's.
// Thread-safety: the thread whose turn it is.
#pragma once

#include <nearmalloc/nearmalloc.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "fuzz/harness.h"

namespace near_test::fuzz {

inline void* call_malloc(size_t size) {
  static void* previous = nullptr;
  const bool is_hit = size >= 200 && size < 300;
  if (has_fault("overlap") && is_hit) {  // every second block is the one before
    void* block = previous != nullptr ? previous : near_malloc(300);
    previous = previous != nullptr ? nullptr : block;
    return block;
  }
  if (has_fault("short") && is_hit) return near_malloc(size / 2);
  return near_malloc(size);
}

inline void* call_calloc(size_t count, size_t size) {
  void* block = near_calloc(count, size);
  if (has_fault("dirty") && block != nullptr && count * size > 100)
    static_cast<char*>(block)[count * size - 1] = 1;
  return block;
}

// The last byte is not copied.
inline void* call_realloc(void* block, size_t size) {
  const size_t usable = near_malloc_usable_size(block);
  void* moved = near_realloc(block, size);
  if (has_fault("realloc") && moved != nullptr && moved != block && usable > 0)
    static_cast<char*>(moved)[std::min(usable, size) - 1] ^= 1;
  return moved;
}

inline void* call_aligned_alloc(size_t alignment, size_t size) {
  const bool is_hit = has_fault("align") && alignment >= 4096 && alignment < 100'000;
  if (is_hit) return static_cast<char*>(near_aligned_alloc(alignment, size + 64)) + 64;
  return near_aligned_alloc(alignment, size);
}

inline void call_free(void* block) {
  const size_t usable = near_malloc_usable_size(block);
  if (has_fault("leak") && usable > 1000 && usable < 2000) return;
  near_free(block);
  if (has_fault("errno") && usable > 32'768) errno = EAGAIN;
}

inline void* call_malloc_on_node(size_t size, int node, unsigned flags) {
  const bool is_hit = has_fault("node") && flags == NEAR_STRICT && node > 0;
  return near_malloc_on_node(size, is_hit ? 0 : node, flags);
}

}  // namespace near_test::fuzz

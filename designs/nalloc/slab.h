// A slab: a page with a header and blocks of one size. [Podolsky13 "Approach"]
//
//   | header | contiguous section of free blocks | blocks ... |        from `first` to `end`
//
// A free block is private, in the contiguous section or on the private stack, or wayward.
// Invariant: free = blocks of the section + blocks of the private stack;
// free + wayward + live = capacity. When wayward == capacity, no thread holds a block, and the host
// has given the slab up and keeps no pointer to it: the slab belongs to the thread whose push was
// the last. So the header changes only while no block is live: a thread that holds a block may read
// host and sizes, and must not after it has pushed that block.
// Thread-safety: the host alone, without any atomic operation; `wayward` as wayward.h says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/compiler.h"
#include "designs/nalloc/pages.h"
#include "designs/nalloc/settings.h"
#include "designs/nalloc/wayward.h"
#include "designs/shared/block_list.h"

namespace near::design::nalloc {

inline constexpr size_t kSmallest = 16;
inline constexpr size_t kLastStep = 128;  // up to here every multiple of 16, then powers of two
inline constexpr size_t kLargest = 1024;
inline constexpr unsigned kSteps = kLastStep / kSmallest;
inline constexpr unsigned kClasses = 1 + kSteps + log2_floor(kLargest / kLastStep);

// The class of 0..kLargest bytes, computed without a table. A size of 0 has a class of its own,
// which saves an instruction. [Podolsky13 "Approach"]
constexpr unsigned class_of(size_t size) {
  if (size <= kLastStep) [[likely]] {
    return static_cast<unsigned>((size + kSmallest - 1) / kSmallest);
  }
  return kSteps + 1 + log2_floor((size - 1) / kLastStep);
}
constexpr size_t size_of(unsigned size_class) {
  if (size_class <= kSteps) return max_of(size_class, 1) * kSmallest;
  return kLastStep << (size_class - kSteps);
}

// The table that arithmetic replaced: the class of each multiple of `kSmallest`. Filled at start if
// the switch `classes` asks for it, else all zero. [Podolsky13 "Algorithm"]
extern uint8_t class_table[kLargest / kSmallest + 1] NEAR_HIDDEN;
NEAR_INLINE unsigned chosen_class_of(size_t size) {
  if (unlikely(settings.class_table)) return class_table[(size + kSmallest - 1) / kSmallest];
  return class_of(size);
}
static_assert(kClasses == 12 && size_of(kClasses - 1) == kLargest && class_of(kLargest) == 11);
static_assert(class_of(0) == 0 && class_of(16) == 1 && class_of(17) == 2 && class_of(128) == 8);
static_assert(class_of(129) == 9 && class_of(256) == 9 && class_of(257) == 10);

class Heap;

struct alignas(64) Slab {
  Kind kind;
  uint32_t free;
  Heap* host;
  char* end;   // of the contiguous section
  Block* top;  // of the private stack
  Slab* next;  // in the host's stack (List)
  Slab* prev;
  uint32_t size;  // of a block
  uint16_t capacity;
  uint16_t size_class;
  WaywardStack<Block> beside;  // the wayward stack, unless the switch puts it behind the header

  // How indices name blocks for the wayward stack.
  struct Names {
    char* page;
    Block* at(uint32_t index) const { return reinterpret_cast<Block*>(page + index * kSmallest); }
    uint32_t index_of(const Block* block) const {
      return static_cast<uint32_t>(reinterpret_cast<const char*>(block) - page) / kSmallest;
    }
  };
  Names names() { return {reinterpret_cast<char*>(this)}; }

  WaywardStack<Block>& wayward() {
    return settings.wayward_apart ? *reinterpret_cast<WaywardStack<Block>*>(this + 1) : beside;
  }
  char* first() { return reinterpret_cast<char*>(this) + settings.header; }

  bool is_whole() const { return free == capacity; }

  // Moves every block to the contiguous section, without writing to blocks. No other thread has the
  // slab.
  void make_whole() {
    top = nullptr;
    free = capacity;
    end = first() + size_t{capacity} * size;
    wayward().reset();
  }

  // Takes a private block; there must be one, and the caller updates `free`. Contiguous blocks come
  // first, as published; the author wanted the reverse. [Podolsky13 "Approach"]
  NEAR_INLINE void* pop() {
    if (unlikely(settings.stack_first) ? top == nullptr : end != first()) return end -= size;
    Block* block = top;
    top = block->next;
    return block;
  }

  // Frees a block. Returns false and does nothing if cheap checks show that the block is not live:
  // it is the top of the stack, or in the contiguous section.
  NEAR_INLINE bool push(void* block) {
    if (block > end) {
      if (unlikely(block == top)) return false;
      auto* freed = static_cast<Block*>(block);
      freed->next = top;
      top = freed;
    } else {
      if (unlikely(block < end)) return false;
      end += size;
    }
    free++;
    return true;
  }

  // Moves the wayward blocks to the private stack, which is empty, without touching a link. Called
  // by the host while it holds a block. Returns how many there were.
  uint32_t move_wayward() {
    const auto chain = wayward().popall(names());
    top = chain.first;
    free = chain.size;
    return chain.size;
  }
};
static_assert(sizeof(Slab) == 64 && sizeof(WaywardStack<Block>) == 8);

}  // namespace near::design::nalloc

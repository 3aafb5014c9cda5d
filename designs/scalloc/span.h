// A virtual span: 2 MiB of the arena at a multiple of 2 MiB (or as the switch says). Its start is
// the real span, a header and the blocks of one size class. Memory behind the real span faults
// (guard.h).
//
// Invariant: free_blocks() = blocks that are not in use, whenever the span is not hot; `bump` =
// bytes of blocks that have been handed out since the span got its class; it is 0 while the span is
// free, so no pointer into a free span passes for one of its blocks.
// Thread-safety: as each line says. [Aigner15 §3.2, figure 4]
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "designs/scalloc/epoch.h"
#include "designs/scalloc/life_cycle.h"
#include "designs/scalloc/local_free_list.h"
#include "designs/scalloc/remote_free_list.h"
#include "designs/scalloc/settings.h"
#include "designs/scalloc/size_class.h"

namespace near::design::scalloc {

struct Block {
  Block* next;
};

struct alignas(64) Span {
  // The owner allocates from here; a thread that has a live block may read.
  LocalFreeList<Block> local;
  Atomic<uint32_t> bump{0};
  uint32_t bump_end = 0;  // constant from here on while the span has its class
  uint32_t size = 0;
  uint32_t reciprocal = 0;
  Atomic<uint32_t> size_class{0};  // settle() may read that of a later use
  Atomic<int32_t> event_at{0};     // free blocks that may change the state; likewise
  // Any thread.
  Atomic<uint64_t> owner{0};  // lab.h
  Epoch epoch;
  Atomic<uint32_t> touched{0};           // bytes from the start that may be resident
  Atomic<bool> has_inner_blocks{false};  // some were handed out at an inner, aligned address

  alignas(64) RemoteFreeList<Block> remote;
  Span* next = nullptr;  // in a reusable set, guarded by its lock
  Span* prev = nullptr;
  Atomic<uint32_t> pool_link{0};  // in the span-pool
  // Bytes from the start that can be used; for the one thread that has the span.
  Atomic<uint32_t> accessible{0};

  char* payload() { return reinterpret_cast<char*>(this) + kSpanHeader; }

  // The distance of a pointer into the virtual span from the header's end; wraps inside the header.
  uint32_t offset_of(const void* pointer) const {
    const auto inside = reinterpret_cast<uintptr_t>(pointer) & (settings.virtual_span - 1);
    return static_cast<uint32_t>(inside) - static_cast<uint32_t>(kSpanHeader);
  }

  // True if a block that has been handed out starts there.
  // relaxed: a thread that has a block saw the bump that made it when it got the block
  bool holds(uint32_t offset) const {
    return starts_block(offset, reciprocal) && offset < bump.load(kRelaxed);
  }

  // Called by the owner of a hot span: takes a free block; null if the local ones are used up.
  NEAR_INLINE void* take() {
    if (likely(!local.empty())) return local.pop();
    const uint32_t offset = bump.load(kRelaxed);  // relaxed: only the owner writes
    if (unlikely(offset == bump_end)) return nullptr;
    bump.store(offset + size, kRelaxed);  // relaxed: passed on with the block
    local.take_new();
    return payload() + offset;
  }

  // Gives the span a class and an owner, before it is hot, when no other thread has it.
  void assign(unsigned size_class_, uint64_t owner_, int32_t event_at_) {
    const SizeClass& shape = kSizeClasses[size_class_];
    local.reset(static_cast<int32_t>(shape.blocks));
    remote.reset();
    bump_end = shape.blocks * shape.size;
    size = shape.size;
    reciprocal = shape.reciprocal;
    bump.store(0, kRelaxed);                  // relaxed: mark_hot publishes it
    has_inner_blocks.store(false, kRelaxed);  // relaxed: as above
    size_class.store(size_class_, kRelaxed);  // relaxed: as above
    event_at.store(event_at_, kRelaxed);      // relaxed: as above
    owner.store(owner_, kRelaxed);            // relaxed: as above
  }
};
static_assert(sizeof(Span) == kSpanHeader);

inline Span* span_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return reinterpret_cast<Span*>(align_down(address, settings.virtual_span));
}

}  // namespace near::design::scalloc

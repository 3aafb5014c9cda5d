// __nalloc: arenas of one page, cut when a request needs it and joined again, in the lists of one
// thread. Blocks that other threads free arrive on one wayward stack for the whole heap.
// [Podolsky13 "__nalloc"]
//
// A block has a header of 4 bytes in front: { left : 12 | size : 12 | free : 1 }, in bytes. Blocks
// of an arena lie side by side; the first is at offset 32, where its header starts at 28.
// Invariant: `left` is the size of the block to the left, 0 for the first; no two neighbours are
// free; a free block is on the list of the largest class that it can serve; one below the smallest
// class is on no list until a neighbour joins it.
// An arena keeps its host as long as it has a live block. The host is a heap, which outlives its
// thread: so a push on the stack that an arena names is safe even if its thread exits meanwhile.
// Thread-safety: the thread of the heap. Any thread pushes on the wayward stack a block that it
// holds, and reads that block's header, of which only `left` changes then.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/list.h"
#include "designs/nalloc/pages.h"
#include "sync/inbox.h"

namespace near::design::nalloc {

class Coalescing;

// Stored at the start of an arena.
struct ArenaHeader {
  Kind kind;
  Coalescing* host;
};

class Coalescing {
 public:
  static constexpr size_t kFirst = 32;
  static constexpr size_t kHeader = 4;
  static constexpr size_t kWhole = kPage - kFirst;   // bytes of an arena that blocks may use
  static constexpr size_t kMost = kWhole - kHeader;  // the largest request
  static constexpr size_t kMinimum = 32;

  // A block of at most kMost bytes; null if memory is refused.
  void* take(size_t size, FreshPages& fresh);

  // Takes back a block of an arena of this host.
  void put(void* block);

  // Any thread.
  void push(void* block) { wayward_.push(static_cast<Wayward*>(block)); }

  // Frees the blocks that other threads pushed. A block that is free already is reported, and the
  // blocks behind it in the stack are lost, because its link was overwritten.
  void collect();

  // The host of the arena that contains the block.
  static Coalescing* host_of(const void* block) {
    return reinterpret_cast<ArenaHeader*>(page_of(block))->host;
  }
  static size_t usable(const void* block);
  // True if no block can be at the address, or the block there is free.
  static bool is_no_live_block(const void* block);

  size_t in_use() const { return in_use_.load(kRelaxed); }    // relaxed: a statistic
  size_t popalls() const { return popalls_.load(kRelaxed); }  // relaxed: a statistic

  // False if the arena of the block, an arena of this host, violates the invariant.
  static bool check(const void* block);

 private:
  struct Header;
  struct FreeBlock {
    FreeBlock* next;
    FreeBlock* prev;
  };
  struct Wayward {
    Plain<Wayward*> next;
  };

  // The published classes end at 1024; the later ones are for requests beyond nalloc's slabs.
  static constexpr size_t kClassSizes[] = {32,   48,   64,   80,   112,  256,  512,  1024,
                                           1152, 1280, 1536, 1792, 2048, 2560, 3072, 3584};
  static constexpr unsigned kLists = sizeof(kClassSizes) / sizeof(size_t);

  Header* find(size_t need);
  Header* new_arena(FreshPages& fresh);
  void* shave(Header* header, size_t need);
  void add(Header* header);
  void remove(Header* header);

  List<FreeBlock> lists_[kLists];
  Atomic<size_t> in_use_{0};   // bytes, written by the thread of the heap
  Atomic<size_t> popalls_{0};  // written by the thread of the heap
  alignas(64) Inbox<Wayward, &Wayward::next> wayward_;
};

}  // namespace near::design::nalloc

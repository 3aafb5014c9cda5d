// A thread's object caches: two lists for each bin, one in use and one spare, which is empty or was
// full. They need no lock. [Kim23 §2.2.4]
//
// Invariant: each cache is `current` in one living thread, or idle in `threads`, then without a
// block, unless it is an orphan of a fork.
// Thread-safety: its thread; idle caches as `threads` says.
#pragma once

#include "base/compiler.h"
#include "designs/shared/heap_list.h"
#include "designs/shared/thread_list.h"
#include "designs/super/bin.h"

namespace near::design::super {

class ThreadCache {
 public:
  void start();

  // Takes a block from the list in use; null if it is empty.
  Block* try_take(size_t bin) { return of(bin).used.pop(); }

  // Puts the block on the list in use. False if the list is full or begins with this block, or if
  // no block of the bin can start there. `kind`: that of its chunk, at most kBins.
  bool try_put(size_t kind, Block* block) {
    Lists& lists = by_kind_[kind];
    const uint64_t offset = reinterpret_cast<uintptr_t>(block) % kChunk - lists.first;
    return likely(offset < kChunk && offset * lists.inverse < lists.inverse &&
                  lists.used.head() != block) &&
           lists.used.push(block);
  }

  // Like try_take and try_put, but with all caches. Null if memory is refused; false, with nothing
  // done, if the block is known to be free.
  Block* take(unsigned bin) {
    Block* block = try_take(bin);
    return block != nullptr ? block : take_slow(bin);
  }
  bool put(unsigned bin, Block* block) {
    if (of(bin).used.head() == block) return false;
    return of(bin).used.push(block) || put_slow(bin, block);
  }

  // A pseudo-random number from 0 to 63.
  uint32_t next_line();

  // Called when another thread takes the cache: it must look up its processor, and count what the
  // thread of an orphan left.
  void arrive();

  // Gives all blocks to the caches above.
  void flush();

  size_t cached(unsigned bin) const {
    const Lists& lists = by_kind_[bin + 1];
    return lists.count();
  }

  constexpr ThreadCache() = default;
  ThreadCache(const ThreadCache&) = delete;
  ThreadCache& operator=(const ThreadCache&) = delete;

 private:
  friend class design::HeapList<ThreadCache>;

  // Everything here that a malloc or free of the bin touches is one cache line, including a copy of
  // the bin's values that free needs.
  struct alignas(64) Lists : ThreadLists {
    uint64_t inverse;
    uint32_t first;
  };
  static_assert(sizeof(Lists) == 64);

  Lists& of(size_t bin) { return by_kind_[bin + 1]; }
  Block* take_slow(unsigned bin);
  bool put_slow(unsigned bin, Block* block);
  void find_processor();
  void flush(unsigned bin, ThreadList& list);
  void recount();

  // Indexed by the kind of a chunk. The lists of kind 0 are empty, accept nothing, and fail every
  // test.
  Lists by_kind_[kBins + 1] = {};
  design::HeapLinks<ThreadCache> links;
  unsigned cpu_ = 0;
  unsigned socket_ = 0;
  uint32_t calls_ = 0;  // calls that reached a processor's cache
  uint32_t random_ = 1;
};

// The cache of a thread that has none: it is empty and accepts nothing.
extern ThreadCache no_cache NEAR_HIDDEN;

// The calling thread's cache, or `no_cache`.
extern __thread ThreadCache* current NEAR_TLS_INITIAL_EXEC NEAR_HIDDEN;

inline bool have_cache() { return current != &no_cache; }

// The caches of all threads.
extern design::HeapList<ThreadCache> threads;

// Gives the calling thread a cache. False if memory is refused.
bool enter_cache();
void leave_cache();

// Blocks of the bin in all threads' lists.
size_t cached_by_threads(unsigned bin);

}  // namespace near::design::super

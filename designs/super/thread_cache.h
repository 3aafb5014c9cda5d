// A thread's object caches: of each bin two lists, one in use and one spare, which is empty or was
// full. No lock is taken for them. [Kim23 §2.2.4]
//
// Invariant: of each cache, it is `current` in one living thread, or it is in `unused`, or
// in `orphans`: left by a thread that a fork did not copy.
// Thread-safety: its thread; `Threads` is guarded by its lock.
#pragma once

#include "base/compiler.h"
#include "base/list.h"
#include "designs/shared/ranks.h"
#include "designs/super/bin.h"
#include "designs/super/thread_list.h"

namespace near::super {

class ThreadCache {
 public:
  void start();

  // A block from the list in use; null if it is empty.
  Block* try_take(size_t bin) { return of(bin).used.pop(); }

  // Puts the block on the list in use. False if that is full, or begins with this very block, or
  // if no block of the bin could start there. `kind`: that of its chunk, at most kBins.
  bool try_put(size_t kind, Block* block) {
    Lists& lists = by_kind_[kind];
    const uint64_t offset = reinterpret_cast<uintptr_t>(block) % kChunk - lists.first;
    return likely(offset < kChunk && offset * lists.inverse < lists.inverse &&
                  lists.used.head() != block) &&
           lists.used.push(block);
  }

  // The same, from and to all caches. Null if memory is refused; false, and nothing is done, if the
  // block is known to be free.
  Block* take(unsigned bin) {
    Block* block = try_take(bin);
    return block != nullptr ? block : take_slow(bin);
  }
  bool put(unsigned bin, Block* block) {
    if (of(bin).used.head() == block) return false;
    return of(bin).used.push(block) || put_slow(bin, block);
  }

  // A number from 0 to 63.
  uint32_t next_line();

  // Another thread has it, on whichever processor.
  void arrive() { calls_ = 0; }

  // Gives all blocks away.
  void flush();

  void recount();
  size_t cached(unsigned bin) const {
    const Lists& lists = by_kind_[bin + 1];
    return lists.used.count() + lists.spare.count();
  }

  constexpr ThreadCache() = default;
  ThreadCache(const ThreadCache&) = delete;
  ThreadCache& operator=(const ThreadCache&) = delete;

 private:
  friend class List<ThreadCache>;
  friend class Threads;

  // All that a malloc or free of the bin touches here is one cache line, with a copy of what free
  // asks of the bin.
  struct alignas(64) Lists {
    ThreadList used;
    ThreadList spare;
    uint64_t inverse;
    uint32_t first;
  };
  static_assert(sizeof(Lists) == 64);

  Lists& of(size_t bin) { return by_kind_[bin + 1]; }
  Block* take_slow(unsigned bin);
  bool put_slow(unsigned bin, Block* block);
  void find_processor();
  void flush(unsigned bin, ThreadList& list);

  // By the kind of a bin's chunks. Those of kind 0 are empty, take nothing, and fail every test.
  Lists by_kind_[kBins + 1] = {};
  ThreadCache* next = nullptr;
  ThreadCache* prev = nullptr;
  unsigned cpu_ = 0;
  unsigned socket_ = 0;
  uint32_t calls_ = 0;  // that went to a processor's cache
  uint32_t random_ = 1;
};

// Stands for that of a thread without one: it has nothing and takes nothing.
extern ThreadCache no_cache NEAR_HIDDEN;

// The calling thread's, or `no_cache`.
extern __thread ThreadCache* current NEAR_TLS_INITIAL_EXEC NEAR_HIDDEN;

inline bool have_cache() { return current != &no_cache; }

class Threads {
 public:
  // The thread has a cache. False if memory is refused.
  bool enter();
  void exit();

  // In a forked child, which has the calling thread alone.
  void orphan_others();

  // Blocks of the bin in all threads' lists.
  size_t cached(unsigned bin);
  // Caches that there are, whether threads have them or not.
  size_t made();
  Mutex& lock() { return lock_; }

 private:
  Mutex lock_{design::kInnerRank};
  List<ThreadCache> living_;
  List<ThreadCache> unused_;
  List<ThreadCache> orphans_;
  size_t made_ = 0;
};

extern Threads threads;

}  // namespace near::super

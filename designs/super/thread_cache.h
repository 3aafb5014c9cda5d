// A thread's object caches: of each bin two lists, one in use and one spare, which is empty or was
// full. No lock is taken for them. [Kim23 §2.2.4]
//
// Invariant: of each cache, `current` of one living thread points to it, or it is in `unused`, or
// in `orphans`: left by a thread that a fork did not copy.
// Who may touch it: its thread; `Threads` is guarded by its lock.
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

  // A block of the bin; null if memory is refused.
  NEAR_INLINE Block* take(unsigned bin) {
    Block* block = bins_[bin].used.pop();
    return likely(block != nullptr) ? block : take_slow(bin);
  }

  // Takes back a block of the bin. False, and nothing is done, if it is known to be free.
  NEAR_INLINE bool put(unsigned bin, Block* block) {
    ThreadList& list = bins_[bin].used;
    if (unlikely(list.head() == block)) return false;
    return likely(list.push(block)) || put_slow(bin, block);
  }

  // A number from 0 to 63.
  uint32_t next_line();

  // Gives all blocks away.
  void flush();

  void recount();
  size_t cached(unsigned bin) const { return bins_[bin].used.count() + bins_[bin].spare.count(); }

  ThreadCache* next = nullptr;
  ThreadCache* prev = nullptr;

 private:
  struct Lists {
    ThreadList used;
    ThreadList spare;
  };

  NEAR_COLD Block* take_slow(unsigned bin);
  NEAR_COLD bool put_slow(unsigned bin, Block* block);
  void find_processor();
  void flush(unsigned bin, ThreadList& list);

  Lists bins_[kBins];
  unsigned cpu_ = 0;
  unsigned socket_ = 0;
  uint32_t calls_ = 0;  // that went to a processor's cache
  uint32_t random_ = 1;
};

// The calling thread's; null if it has none.
extern __thread ThreadCache* current NEAR_TLS_INITIAL_EXEC NEAR_HIDDEN;

class Threads {
 public:
  // `current` is a cache, or null. False if memory is refused.
  bool enter();
  void exit();

  // In a forked child, which has the calling thread alone.
  void orphan_others();

  // Blocks of the bin in all threads' lists.
  size_t cached(unsigned bin);
  Mutex& lock() { return lock_; }

 private:
  Mutex lock_{design::kInnerRank};
  List<ThreadCache> living_;
  List<ThreadCache> unused_;
  List<ThreadCache> orphans_;
};

extern Threads threads;

}  // namespace near::super

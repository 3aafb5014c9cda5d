// The object cache of a bin and a processor: threads take lists from it and give lists to it.
// [Kim23 §2.2.4]
// Thread-safety: any thread that holds no other lock.
#pragma once

#include "designs/shared/ranks.h"
#include "designs/shared/thread_list.h"
#include "designs/super/bin.h"
#include "designs/super/list_cache.h"
#include "designs/super/section.h"

namespace near::design::super {

class alignas(64) CpuCache {
 public:
  struct Totals {
    size_t accesses;  // how often its lock was taken for blocks
    size_t walked;    // links followed to divide a list
    size_t cached;    // blocks
  };

  void start(unsigned bin, BlockList* lists);

  // Fills the thread's empty list, if necessary from the caches above, which include that of
  // `socket` if sockets have caches. False if memory is refused.
  bool fill(ThreadList& list, unsigned socket);

  // Takes the thread's list, which must not be empty. Returns false and does nothing if there is no
  // room here or above.
  bool empty(ThreadList& list, unsigned socket);

  // For threads without lists: takes one block; null if memory is refused.
  Block* take_block(unsigned socket);
  bool put_block(Block* block, unsigned socket);

  void trim();
  Totals totals();
  Mutex& lock() { return lock_; }

 private:
  bool refill(unsigned socket);
  bool make_room(unsigned socket);

  Mutex lock_{design::kUpperRank};
  unsigned bin_ = 0;
  ListCache lists_;
  size_t accesses_ = 0;
  size_t walked_ = 0;
};

// The caches of all processors, kBins for each.
extern CpuCache* cpu_caches;
extern unsigned cpu_cache_count;
// The number of processors with caches of their own; others share them.
extern unsigned cpus;

bool start_cpu_caches();

inline CpuCache& cpu_cache(unsigned cpu, unsigned bin) { return cpu_caches[cpu * kBins + bin]; }

// The number of blocks of the bin that makes a thread's list full.
inline uint32_t thread_list_full(unsigned bin) {
  return static_cast<uint32_t>(div_up(settings.thread_list_bytes, kSizes[bin]));
}

}  // namespace near::design::super

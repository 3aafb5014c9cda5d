// SuperMalloc's level of threads, in front of any design: two lists of free blocks for each class,
// which take from and give to the design a whole list at a time. [Kim23 §2.2.4]
//
// The design is `Back`: kClasses; block_bytes(c), 0 for a class without blocks of its own;
// allocate(c) and deallocate(block), which do what they do without this level. Both are called by a
// thread that has a cache, and by one that has none.
// Invariant: a cache is `current_` in one living thread, or idle and without a block, or an orphan
// of a fork. A block in a list is live to `Back`.
// Thread-safety: a cache is its thread's; HeapList guards the idle ones.
#pragma once

#include <new>

#include "base/bits.h"
#include "base/compiler.h"
#include "designs/shared/heap_list.h"
#include "designs/shared/room.h"
#include "designs/shared/thread_list.h"

namespace near::design {

template <typename Back>
class ListFront {
 public:
  struct Totals {
    uint64_t filled = 0;   // lists taken from the design
    uint64_t emptied = 0;  // lists given to it
    size_t blocks = 0;     // in all lists
    size_t bytes = 0;
  };

  // A list is full with `list_bytes` bytes of blocks, and with one block.
  static bool start(size_t list_bytes) {
    list_bytes_ = list_bytes;
    return arena_.size() != 0 || arena_.reserve(kMost, kLeast, kStep, kStep);
  }

  // Gives the calling thread a cache. False if memory is refused.
  static bool enter() {
    Cache* cache = caches_.take(make);
    if (cache == nullptr) return false;
    if (cache->links.is_orphan) {
      cache->links.is_orphan = false;
      for (ThreadLists& lists : cache->lists) lists.recount();
    }
    current_ = cache;
    return true;
  }
  static void leave() {
    flush();
    Cache* cache = current_;
    current_ = &none_;
    caches_.give(cache);
  }

  // Null if memory is refused.
  NEAR_INLINE static void* take(unsigned size_class) {
    void* block = current_->lists[size_class].used.pop();
    return likely(block != nullptr) ? block : take_slow(size_class);
  }

  // False, with nothing done, if the block is known to be free.
  NEAR_INLINE static bool put(unsigned size_class, void* freed) {
    auto* block = static_cast<Block*>(freed);
    ThreadList& used = current_->lists[size_class].used;
    if (unlikely(used.head() == block)) return false;
    if (unlikely(!used.push(block))) put_slow(size_class, block);
    return true;
  }

  // Gives the thread's blocks to the design.
  static void flush() {
    for (ThreadLists& lists : current_->lists) {
      empty(lists.used);
      empty(lists.spare);
    }
  }

  static Totals totals() {
    Totals all;
    caches_.for_each([&](const Cache& cache) {
      all.filled += cache.filled.load(kRelaxed);    // relaxed: a statistic
      all.emptied += cache.emptied.load(kRelaxed);  // relaxed: a statistic
      for (unsigned c = 0; c < Back::kClasses; c++) {
        all.blocks += cache.lists[c].count();
        all.bytes += cache.lists[c].count() * Back::block_bytes(c);
      }
    });
    return all;
  }

  static Mutex& lock() { return caches_.lock(); }
  // In the child of a fork that holds the lock.
  static void adopt_others() { caches_.adopt_others(current_); }

 private:
  static constexpr size_t kMost = size_t{1} << 32;
  static constexpr size_t kLeast = size_t{1} << 20;
  static constexpr size_t kStep = size_t{64} << 10;

  struct alignas(64) Cache {
    ThreadLists lists[Back::kClasses];
    HeapLinks<Cache> links;
    Atomic<uint64_t> filled{0};  // this and the next: the cache's thread writes
    Atomic<uint64_t> emptied{0};
  };

  // Called under the lock of the caches, which guards the room.
  static Cache* make() {
    auto* cache = room_.template take_for<Cache>(1);
    if (cache == nullptr) return nullptr;
    ::new (cache) Cache;
    for (unsigned c = 0; c < Back::kClasses; c++) {
      const size_t bytes = Back::block_bytes(c);
      cache->lists[c].start(bytes != 0 ? static_cast<uint32_t>(div_up(list_bytes_, bytes)) : 0);
    }
    return cache;
  }

  static void count(Atomic<uint64_t>& counter) {
    // relaxed: one thread writes, others read a statistic
    counter.store(counter.load(kRelaxed) + 1, kRelaxed);
  }

  NEAR_COLD static void* take_slow(unsigned size_class) {
    ThreadLists& lists = current_->lists[size_class];
    if (lists.used.full() == 0) return Back::allocate(size_class);
    return lists.take([&](ThreadList& list) {
      BlockList blocks;
      while (blocks.count < list.full()) {
        auto* block = static_cast<Block*>(Back::allocate(size_class));
        if (block == nullptr) break;
        blocks.add_last(block);
      }
      if (blocks.empty()) return false;
      list.put(blocks);
      count(current_->filled);
      return true;
    });
  }

  NEAR_COLD static void put_slow(unsigned size_class, Block* block) {
    ThreadLists& lists = current_->lists[size_class];
    if (lists.used.full() == 0) return Back::deallocate(block);
    lists.put(block, [](ThreadList& list) {
      empty(list);
      return true;
    });
  }

  static void empty(ThreadList& list) {
    if (list.empty()) return;
    count(current_->emptied);
    for (BlockList blocks = list.take(); !blocks.empty();) Back::deallocate(blocks.pop());
  }

  // The cache of threads that have none: its lists are empty and accept nothing.
  static inline constinit Cache none_{};
  static inline constinit thread_local Cache* current_ NEAR_TLS_INITIAL_EXEC = &none_;
  static inline constinit HeapList<Cache> caches_{kInnerRank};
  static inline constinit Arena arena_{};
  static inline constinit Room room_{arena_, kStep};
  static inline size_t list_bytes_ = 0;
};

}  // namespace near::design

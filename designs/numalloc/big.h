// The big objects of one node: runs in its big half; free neighbours are joined. [Yang23 §3.1]
//
// Every run has a record (PerBigObjectSizeInfo) of its size and whether it is free, linked with the
// records of its neighbours. Free ones are in one list for each power of two of their size.
// Invariant: records in address order cover the used part of the half without a gap; no two
// neighbours are both free; by_bag_[first bag of a run] is its record, and null for other bags.
// Thread-safety: any thread; guarded by `lock_`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/list.h"
#include "designs/numalloc/half.h"
#include "designs/numalloc/size_class.h"
#include "designs/shared/ranks.h"

namespace near::design::numalloc {

class Metadata;

struct BigObject {
  BigObject* before;  // neighbours in address order
  BigObject* after;
  BigObject* prev;  // in a list of free objects
  BigObject* next;
  uint32_t first;  // its first bag in the half
  uint32_t bags;
  bool free;
};

class BigHeap {
 public:
  enum class Freed : uint8_t { fine, twice, no_object };

  struct Statistics {
    uint64_t allocated = 0;  // objects ever handed out
    uint64_t freed_remote = 0;
    uint64_t split = 0;
    uint64_t coalesced = 0;
    size_t live_bytes = 0;
    size_t live = 0;
  };

  void set(uintptr_t start, size_t size, BigObject** by_bag, Metadata* metadata);

  // At least `size` > 0 bytes, aligned to a bag or to `alignment`; null if memory is refused.
  // `zeroed`: all bytes are zero.
  void* allocate(size_t size, size_t alignment, bool& zeroed);
  Freed release(void* start, bool remote);
  // Grows or shrinks the object in place; returns false and does nothing if it cannot.
  bool resize(void* start, size_t size);
  size_t usable_size(const void* start);  // 0: no object starts there

  Statistics statistics();
  size_t committed() const { return half_.committed(); }
  bool check();  // the invariant

  void lock_for_fork() { lock_.lock_for_fork(); }
  void unlock_for_fork() { lock_.unlock_for_fork(); }

 private:
  static constexpr unsigned kBins = 32;

  BigObject* find(const void* start) const;
  BigObject* make_record(uint32_t first, uint32_t bags);
  void drop_record(BigObject* record);
  void put_free(BigObject* object);
  void take_free(BigObject* object);
  BigObject* find_free(uint32_t bags, uint32_t alignment) const;
  BigObject* take_new(uint32_t bags, uint32_t alignment);
  BigObject* extend(uint32_t bags);
  BigObject* split(BigObject* object, uint32_t bags);
  BigObject* join(BigObject* object, BigObject* after);
  void coalesce(BigObject* object);
  uint32_t padding(uint32_t first, uint32_t alignment) const;
  void* hand_out(BigObject* object);

  Mutex lock_{kInnerRank};
  Half half_;
  BigObject** by_bag_ = nullptr;
  size_t by_bag_committed_ = 0;  // bytes
  Metadata* metadata_ = nullptr;
  BigObject* last_ = nullptr;
  BigObject* unused_ = nullptr;  // records, linked by `next`
  List<BigObject> bins_[kBins];
  Statistics statistics_;
};

}  // namespace near::design::numalloc

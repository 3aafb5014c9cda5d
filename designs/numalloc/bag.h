// A bag: 32 KiB that hold objects of one class. An object larger than a bag is a run of bags.
// [Yang23 §3.1, BiBOP]
// Invariant: next..end are never-used objects; next == end: there is no bag.
// Thread-safety: guarded by the lock of its owner, or used only by the thread that owns it.
#pragma once

#include "designs/numalloc/size_class.h"
#include "designs/numalloc/sublist.h"

namespace near::design::numalloc {

// The bytes that a bag of this class takes from a region: 32 KiB, or the run of one object.
constexpr size_t bag_bytes(unsigned size_class) {
  return max_of(kBagSize, kClassSizes[size_class]);
}

class Bag {
 public:
  bool empty() const { return next_ == end_; }

  void open(void* start, unsigned size_class) {
    const size_t size = kClassSizes[size_class];
    next_ = static_cast<char*>(start);
    end_ = next_ + bag_bytes(size_class) / size * size;
  }

  // Cuts up to `wanted` objects, linked in address order.
  Sublist carve(unsigned size_class, uint32_t wanted) {
    if (empty()) return {};
    const size_t size = kClassSizes[size_class];
    const auto left = static_cast<uint32_t>(static_cast<size_t>(end_ - next_) / size);
    const uint32_t count = wanted < left ? wanted : left;
    Sublist list{reinterpret_cast<Object*>(next_), nullptr, count};
    char* at = next_;
    for (uint32_t i = 1; i < count; i++, at += size) {
      reinterpret_cast<Object*>(at)->next = reinterpret_cast<Object*>(at + size);
    }
    list.tail = reinterpret_cast<Object*>(at);
    list.tail->next = nullptr;
    next_ = at + size;
    return list;
  }

 private:
  char* next_ = nullptr;
  char* end_ = nullptr;
};

}  // namespace near::design::numalloc

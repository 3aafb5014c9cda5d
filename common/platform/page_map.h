// Which pages of the process are resident, as the kernel's page table says.
//
// A page that only reads as the kernel's page of zeros has no memory of its own and is not counted
// in the resident size; kernels before 6.7 do not tell such pages apart, and report them here.
// Thread-safety: the thread that made the object. The functions take no locks and do not allocate.
#pragma once

#include <cstddef>
#include <cstdint>

namespace near {

struct PageRange {
  uintptr_t start;
  uintptr_t end;
};

class PageMap {
 public:
  PageMap();
  ~PageMap();
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  // False if /proc/self/pagemap cannot be read.
  bool is_open() const { return file_ >= 0; }

  // Calls visit(range) for the resident ranges of [start, end), which are whole pages, in order.
  template <typename Visit>
  void for_each_resident(uintptr_t start, uintptr_t end, Visit visit) {
    PageRange found[kBatch];
    while (start < end) {
      const size_t count = find(start, end, found);
      for (size_t i = 0; i < count; i++) visit(found[i]);
    }
  }

  // The resident bytes of [start, end).
  size_t resident(uintptr_t start, uintptr_t end) {
    size_t sum = 0;
    for_each_resident(start, end, [&](PageRange range) { sum += range.end - range.start; });
    return sum;
  }

 private:
  static constexpr size_t kBatch = 64;

  // Moves `start` on to where the search ended; returns how many ranges it found before.
  size_t find(uintptr_t& start, uintptr_t end, PageRange (&found)[kBatch]);
  size_t scan(uintptr_t& start, uintptr_t end, PageRange (&found)[kBatch]);
  size_t read(uintptr_t& start, uintptr_t end, PageRange (&found)[kBatch]) const;

  int file_;
  bool scans_ = true;  // the kernel has PAGEMAP_SCAN
  size_t page_;
};

}  // namespace near

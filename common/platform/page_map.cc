#include "platform/page_map.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/bits.h"
#include "platform/raw_io.h"
#include "platform/saved_errno.h"

namespace near {
namespace {

// The kernel's interface, which headers before Linux 6.7 lack.
struct PageRegion {
  uint64_t start;
  uint64_t end;
  uint64_t categories;
};
struct Scan {
  uint64_t size;
  uint64_t flags;
  uint64_t start;
  uint64_t end;
  uint64_t walk_end;
  uint64_t vec;
  uint64_t vec_len;
  uint64_t max_pages;
  uint64_t category_inverted;
  uint64_t category_mask;
  uint64_t category_anyof_mask;
  uint64_t return_mask;
};
constexpr uint64_t kPresent = 1 << 3;
constexpr uint64_t kZeroPage = 1 << 5;
constexpr unsigned long kScan = _IOWR('f', 16, Scan);

}  // namespace

PageMap::PageMap()
    : file_(raw::open_to_read("/proc/self/pagemap")),
      page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {}

PageMap::~PageMap() {
  const SavedErrno saved;
  if (is_open()) raw::close(file_);
}

size_t PageMap::find(uintptr_t& start, uintptr_t end, PageRange (&found)[kBatch]) {
  const SavedErrno saved;
  if (scans_) {
    const uintptr_t before = start;
    const size_t count = scan(start, end, found);
    if (start != before) return count;
    scans_ = false;
  }
  return read(start, end, found);
}

// Leaves `start` unchanged if the kernel refuses.
size_t PageMap::scan(uintptr_t& start, uintptr_t end, PageRange (&found)[kBatch]) {
  PageRegion regions[kBatch];
  Scan scan{};
  scan.size = sizeof scan;
  scan.start = start;
  scan.end = end;
  scan.vec = reinterpret_cast<uintptr_t>(regions);
  scan.vec_len = kBatch;
  scan.category_mask = kPresent | kZeroPage;
  scan.category_inverted = kZeroPage;
  scan.return_mask = kPresent;
  const long count = raw::control(file_, kScan, &scan);
  if (count < 0) return 0;
  for (long i = 0; i < count; i++) found[i] = {regions[i].start, regions[i].end};
  start = scan.walk_end;
  return static_cast<size_t>(count);
}

size_t PageMap::read(uintptr_t& start, uintptr_t end, PageRange (&found)[kBatch]) const {
  uint64_t entries[kBatch];
  const size_t wished = min_of((end - start) / page_, kBatch);
  const ssize_t bytes = raw::read_at(file_, entries, wished * sizeof entries[0],
                                     static_cast<off_t>(start / page_ * sizeof entries[0]));
  if (bytes <= 0) {
    start = end;
    return 0;
  }
  const size_t read = static_cast<size_t>(bytes) / sizeof entries[0];
  size_t count = 0;
  for (size_t i = 0; i < read; i++, start += page_) {
    if (entries[i] >> 63 == 0) continue;
    if (count > 0 && found[count - 1].end == start) {
      found[count - 1].end += page_;
    } else {
      found[count++] = {start, start + page_};
    }
  }
  return count;
}

}  // namespace near

// Whether a heap has shrunk, and whether it gave back pages inside its spans that it then needed
// again. Guard: the lock of the heap. docs/decisions/0005-pages-inside-spans.md
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "span/layout.h"

namespace near {

class Shrinking {
 public:
  // The heap became the owner of a span.
  void count_added() {
    spans_++;
    if (retired_ > 0) retired_--;
  }

  // An empty span left. The purge of its pages was useless, so they count as needed again.
  void count_retired(Span& span) {
    spans_--;
    retired_++;
    pages_wanted_ += span.purged_pages;
    span.purged_pages = 0;
  }

  // A span with live blocks went to another heap.
  void count_adopted() { spans_--; }

  void count_purged(Span& span, uint32_t pages) {
    span.purged_pages = static_cast<uint16_t>(span.purged_pages + pages);
    pages_purged_ += pages;
  }

  // A purged page of the span is needed again.
  void count_wanted(Span& span) {
    span.purged_pages--;
    pages_wanted_++;
  }

  // True if more than half of the heap's spans are half free (`sparse`), or more than an eighth
  // left recently. A few spans (kTiny) never count as shrinking.
  bool has_shrunk(uint32_t sparse) const {
    constexpr uint32_t kTiny = 2 * kMiB / kSliceSize;
    return sparse > max_of(kTiny / 2, spans_ / 2) || retired_ > max_of(kTiny, spans_ / 8);
  }

  uint32_t spans() const { return spans_; }

  // True if at most half of the purged pages were needed again.
  bool is_purging_useful() const { return pages_wanted_ * 2 <= pages_purged_ + kFreeTrial; }

  // Time has passed: if no more spans left than came since the last call, a quarter of those that
  // left are forgotten.
  void age() {
    if (retired_ <= retired_before_) retired_ -= retired_ / 4;
    retired_before_ = retired_;
  }

  // Every span that could leave has left.
  void forget() { retired_ = 0; }

 private:
  static constexpr uint32_t kFreeTrial = 256;  // pages needed again before the record counts

  uint32_t spans_ = 0;           // spans owned
  uint32_t retired_ = 0;         // spans that left, less those that came since
  uint32_t retired_before_ = 0;  // retired_ at the last call of `age`
  uint64_t pages_purged_ = 0;    // pages inside spans that were given back
  uint64_t pages_wanted_ = 0;    // purged pages that were carved again or whose span left
};

}  // namespace near

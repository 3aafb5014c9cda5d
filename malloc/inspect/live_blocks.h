// The number of live blocks of each class, from the counters of the spans. Only the bins of small
// classes have no counter, so their lists are walked.
// Thread-safety: any thread, without locks held. A block that another thread takes or frees
// meanwhile may be counted either way.
#pragma once

#include <cstdint>

#include "sizes/size_class.h"

namespace near {

struct LiveBlocks {
  struct OfClass {
    uint64_t live;      // blocks in use by the program
    uint64_t capacity;  // blocks in the spans of the class, live or free
  };
  OfClass classes[kClasses];

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (unsigned c = 0; c < kClasses; c++) sum += classes[c].live * kSizeClasses[c].size;
    return sum;
  }
};

// Takes time in proportion to the number of spans. All zero if the caller is a signal handler that
// interrupted the allocator.
void count_live(LiveBlocks& out);

}  // namespace near

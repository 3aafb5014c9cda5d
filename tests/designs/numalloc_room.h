// What the tests of NUMAlloc share: memory for metadata, counters by name, blocks.
// Thread-safety: only the thread of the test uses it.
#pragma once

#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "designs/counters.h"
#include "designs/numalloc/numalloc.h"
#include "designs/shared/life.h"
#include "designs/shared/machine.h"
#include "platform/os.h"
#include "support/cases.h"
#include "support/threads.h"

namespace near_test {

using near::design::topology;
using near::design::numalloc::kClasses;
using near::design::numalloc::kClassSizes;
using near::design::numalloc::kSmallLimit;
using near::design::numalloc::regions;

inline unsigned node_of(const void* block) { return regions.node_of(block); }

// Enough blocks of a size to need several batches.
inline std::vector<void*> allocate_many(size_t size, size_t bytes = 256 * near::kKiB) {
  std::vector<void*> blocks;
  for (size_t i = 0; i < std::max<size_t>(bytes / size, 5); i++) {
    blocks.push_back(near_malloc(size));
    memset(blocks.back(), 1, size);
  }
  return blocks;
}

inline void free_all(const std::vector<void*>& blocks) {
  for (void* block : blocks) near_free(block);
}

inline size_t count_on(const std::vector<void*>& blocks, unsigned node) {
  size_t count = 0;
  for (void* block : blocks) count += node_of(block) == node ? 1 : 0;
  return count;
}

}  // namespace near_test

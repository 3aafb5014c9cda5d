// What the tests of placement share: nodes without faults before and after, and many blocks.
// Runs with NEARMALLOC_TOPOLOGY of several nodes, where CPU n belongs to node n.
// Thread-safety: tests, and a test's own threads.
#pragma once

#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>

#include <algorithm>
#include <vector>

#include "base/bits.h"
#include "front/thread.h"
#include "node/memory.h"
#include "support/fake_cpu.h"

namespace near_test {

class NumaTest : public testing::Test {
 protected:
  void SetUp() override {
    near::start_library();
    ASSERT_GE(near::topology.count, 2u) << "NEARMALLOC_TOPOLOGY is missing";
    for (unsigned n = 0; n < near::topology.count; n++) ASSERT_EQ(near::topology.node_of(n), n);
    near_free(near_malloc(1));
    spills_ = stats().spills;
  }
  void TearDown() override {
    set_cpu(0);
    EXPECT_EQ(near_check(), 0u);
    EXPECT_EQ(stats().spills, spills_);
  }

  near_stats stats() {
    near_stats stats;
    near_get_stats(&stats);
    return stats;
  }
  unsigned other_node() const { return near::topology.count - 1; }

  uint64_t spills_ = 0;  // that the test may have caused
};

// Enough blocks of a size to need new spans.
inline std::vector<void*> allocate_many(size_t size, size_t bytes = near::kMiB) {
  std::vector<void*> blocks;
  for (size_t i = 0; i < std::max<size_t>(bytes / size, 3); i++)
    blocks.push_back(near_malloc(size));
  return blocks;
}

inline void free_all(const std::vector<void*>& blocks) {
  for (void* block : blocks) near_free(block);
}

inline size_t count_on(const std::vector<void*>& blocks, unsigned node) {
  size_t count = 0;
  for (void* block : blocks) count += near_node_of(block) == static_cast<int>(node) ? 1 : 0;
  return count;
}

}  // namespace near_test

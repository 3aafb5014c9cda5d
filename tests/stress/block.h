// A block with a pattern in it, and slots in which threads leave such blocks: what the stress tests
// share.
// Invariant: the thread that frees a block checks it, however many threads have held it.
// Thread-safety: a block belongs to the thread that holds it; any thread may use a mailbox.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "support/parallel.h"
#include "support/suite.h"

namespace near_test {

struct Block {
  void* start = nullptr;
  size_t size = 0;
  uint64_t seed = 0;
};

// Blocks that were damaged or refused, in all threads of a test.
inline std::atomic<size_t> wrong_blocks{0};

inline void count_wrong() {
  wrong_blocks.fetch_add(1,
                         std::memory_order_relaxed);  // relaxed: read after the threads are joined
}

template <typename Api>
Block make_block(size_t size, uint64_t seed) {
  Block block{Api::malloc(size), size, seed};
  if (block.start == nullptr) {
    count_wrong();
    return Block{};
  }
  fill(block.start, size, seed);
  return block;
}

template <typename Api>
void check_and_free(const Block& block) {
  if (block.start == nullptr) return;
  if (!holds(block.start, block.size, block.seed)) count_wrong();
  Api::free(block.start);
}

// Frees all blocks at once where the allocator can, else one by one.
template <typename Api>
void check_and_free_batch(const std::vector<Block>& blocks) {
  if (near_free_batch == nullptr) {
    for (const Block& block : blocks) check_and_free<Api>(block);
    return;
  }
  std::vector<void*> starts;
  for (const Block& block : blocks) {
    if (block.start != nullptr && !holds(block.start, block.size, block.seed)) count_wrong();
    starts.push_back(block.start);
  }
  near_free_batch(starts.data(), starts.size());
}

template <typename Api>
void check_and_resize(Block& block, size_t size) {
  if (!holds(block.start, block.size, block.seed)) count_wrong();
  const size_t prefix = std::min({block.size, size, kWholeUpTo});
  fill_range(static_cast<char*>(block.start), 0, prefix, ~block.seed);
  void* moved = Api::realloc(block.start, size);
  if (moved == nullptr || !range_holds(static_cast<char*>(moved), 0, prefix, ~block.seed))
    count_wrong();
  if (moved == nullptr) return;
  block = {moved, size, block.seed + 1};
  fill(moved, size, block.seed);
}

// Slots in which threads leave blocks for each other.
class Mailbox {
 public:
  explicit Mailbox(size_t slots) : slots_(slots) {}

  // Puts `block` into a slot and returns what was there.
  Block exchange(size_t slot, Block block) {
    const std::lock_guard guard(mutex_);
    std::swap(slots_[slot % slots_.size()], block);
    return block;
  }

  template <typename Api>
  void drain() {
    for (Block& block : slots_) check_and_free<Api>(std::exchange(block, Block{}));
  }

 private:
  std::mutex mutex_;
  std::vector<Block> slots_;
};

template <typename Api>
class StressTest : public AllocatorTest<Api> {
 protected:
  void SetUp() override { wrong_blocks = 0; }
  void TearDown() override {
    EXPECT_EQ(wrong_blocks.load(), 0u);
    AllocatorTest<Api>::TearDown();
  }
};

}  // namespace near_test

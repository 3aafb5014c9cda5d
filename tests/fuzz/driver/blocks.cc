#include "fuzz/driver/blocks.h"

#include <nearmalloc/nearmalloc.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace near_test::driver {

Rules rules;

namespace {

size_t usual_alignment(size_t size) { return size < 16 ? 8 : 16; }

}  // namespace

void demand(bool condition, const char* what, size_t number) {
  if (condition) return;
  std::fprintf(stderr, "seed %zu: %s (%zu)\n", static_cast<size_t>(rules.seed), what, number);
  std::abort();
}

Block take_over(void* start, size_t size, size_t alignment, uint64_t pattern) {
  if (start == nullptr) {
    demand(errno == ENOMEM, "NULL without ENOMEM", size);
    demand(rules.refusals, "no memory though nothing is refused", size);
    return Block{};
  }
  demand(reinterpret_cast<uintptr_t>(start) % alignment == 0, "a misaligned block", size);
  demand(near_malloc_usable_size(start) >= size, "a block that is too small", size);
  fill(start, size, pattern);
  return {static_cast<char*>(start), size, pattern};
}

Block make(size_t size, uint64_t pattern) {
  errno = 0;
  return take_over(near_malloc(size), size, usual_alignment(size), pattern);
}

Block make_zeroed(size_t size, uint64_t pattern) {
  errno = 0;
  auto* start = static_cast<char*>(near_calloc(1, size));
  if (rules.fault == "dirty" && start != nullptr && size > 500) start[size / 2] = 1;
  demand(start == nullptr || is_zero(start, size), "calloc gives bytes that are not zero", size);
  return take_over(start, size, usual_alignment(size), pattern);
}

Block make_aligned(size_t alignment, size_t size, uint64_t pattern) {
  errno = 0;
  return take_over(near_aligned_alloc(alignment, size), size, alignment, pattern);
}

Block make_on_node(size_t size, int node, unsigned flags, uint64_t pattern) {
  errno = 0;
  void* start = near_malloc_on_node(size, node, flags);
  demand(start == nullptr || flags != NEAR_STRICT || near_node_of(start) == node,
         "a block of another node", size);
  return take_over(start, size, usual_alignment(size), pattern);
}

void check_and_resize(Block& block, size_t size, uint64_t pattern) {
  demand(holds(block.start, block.size, block.seed), "a block is damaged", block.size);
  const size_t kept = std::min(block.size, size);
  errno = 0;
  auto* moved = static_cast<char*>(near_realloc(block.start, size));
  if (moved == nullptr) {
    take_over(nullptr, size, 1, 0);
    demand(holds(block.start, block.size, block.seed), "a refused realloc did damage", block.size);
    return;
  }
  if (rules.fault == "realloc" && moved != block.start) moved[kept - 1] ^= 1;
  const bool same = for_pattern_ranges(block.size, [&](size_t from, size_t to) {
    return from >= kept || range_holds(moved, from, std::min(to, kept), block.seed);
  });
  demand(same, "realloc lost bytes", size);
  block = take_over(moved, size, usual_alignment(size), pattern);
}

void check_and_free(const Block& block) {
  if (block.start == nullptr) return;
  demand(holds(block.start, block.size, block.seed), "a block is damaged", block.size);
  if (rules.fault == "leak" && block.size > 700 && block.size < 1000) return;
  near_free(block.start);
}

void check_and_free_batch(const std::vector<Block>& blocks) {
  std::vector<void*> starts;
  for (const Block& block : blocks) {
    demand(block.start == nullptr || holds(block.start, block.size, block.seed),
           "a block is damaged", block.size);
    starts.push_back(block.start);
  }
  near_free_batch(starts.data(), starts.size());
}

Block Mailbox::exchange(uint64_t slot, Block block) {
  const std::lock_guard guard(mutex_);
  std::swap(slots_[slot % std::size(slots_)], block);
  return block;
}

void Mailbox::free_all() {
  for (Block& block : slots_) check_and_free(std::exchange(block, Block{}));
}

}  // namespace near_test::driver

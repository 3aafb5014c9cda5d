// One deterministic workload over the whole family, run by fault_injection.cc as a child whose
// operating system refuses what NEAR_FAKE_OS says.
// Invariant: every allocation works, or is NULL with ENOMEM; every block keeps its pattern;
// near_check() is silent; once the faults stop, allocation works again. Exit status 0, or a line
// that says what was wrong. The last line says how often the system was called and how many
// allocations were refused.
// Thread-safety: threads run one at a time, so that the n-th call is the same in every run.
#include <nearmalloc/nearmalloc.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "node/memory.h"
#include "support/fake_os.h"
#include "support/pattern.h"
#include "support/threads.h"

namespace near_test {
namespace {

size_t refused = 0;
size_t operations = 0;

[[noreturn]] void wrong(const char* what, size_t number) {
  std::printf("wrong: %s (%zu) at operation %zu\n", what, number, operations);
  std::fflush(stdout);
  std::abort();
}

void demand(bool condition, const char* what, size_t number = 0) {
  if (!condition) wrong(what, number);
}

struct Block {
  char* start;
  size_t size;
  uint64_t seed;
};

// What is live, in the order it was made.
class Blocks {
 public:
  // Records the block that an allocation of `size` returned.
  void add(void* start, size_t size, size_t alignment, bool zero = false) {
    operations++;
    if (start == nullptr) {
      demand(errno == ENOMEM, "NULL without ENOMEM", size);
      refused++;
      return;
    }
    demand(reinterpret_cast<uintptr_t>(start) % alignment == 0, "misaligned", size);
    demand(near_malloc_usable_size(start) >= size, "too small", size);
    demand(!zero || is_zero(start, size), "calloc is not zero", size);
    const Block block{static_cast<char*>(start), size, operations};
    fill_block(block);
    blocks_.push_back(block);
  }

  void allocate(size_t size) {
    errno = 0;
    add(near_malloc(size), size, size >= 16 ? 16 : 8);
  }
  void allocate_zeroed(size_t size) {
    errno = 0;
    add(near_calloc(1, size), size, 16, true);
  }
  void allocate_aligned(size_t alignment, size_t size) {
    errno = 0;
    add(near_aligned_alloc(alignment, size), size, alignment);
  }

  void resize(size_t index, size_t size) {
    if (blocks_.empty()) return;
    Block& block = blocks_[index % blocks_.size()];
    expect_pattern(block);
    const size_t kept = std::min({block.size, size, kWholeUpTo});
    operations++;
    errno = 0;
    auto* moved = static_cast<char*>(near_realloc(block.start, size));
    if (moved == nullptr) {
      demand(errno == ENOMEM, "realloc: NULL without ENOMEM", size);
      refused++;
      expect_pattern(block);
      return;
    }
    demand(range_holds(moved, 0, kept, block.seed), "realloc lost bytes", size);
    block = {moved, size, operations};
    fill_block(block);
  }

  void release(size_t index) {
    if (blocks_.empty()) return;
    const Block block = blocks_[index % blocks_.size()];
    blocks_[index % blocks_.size()] = blocks_.back();
    blocks_.pop_back();
    expect_pattern(block);
    operations++;
    errno = 77;
    near_free(block.start);
    demand(errno == 77, "free changed errno", block.size);
  }

  void release_at_once(size_t number, Random& random) {
    std::vector<void*> batch;
    for (; number > 0 && !blocks_.empty(); number--) {
      Block& block = blocks_[random.below(blocks_.size())];
      expect_pattern(block);
      operations++;
      batch.push_back(block.start);
      block = blocks_.back();
      blocks_.pop_back();
    }
    errno = 77;
    const size_t groups = near_free_batch(batch.data(), batch.size());
    demand(errno == 77, "a batch changed errno", batch.size());
    demand(groups <= batch.size(), "more groups than blocks", groups);
  }

  void release_all() {
    while (!blocks_.empty()) release(blocks_.size() - 1);
  }
  void expect_patterns() const {
    for (const Block& block : blocks_) expect_pattern(block);
  }
  size_t count() const { return blocks_.size(); }

 private:
  // All first bytes are equal, so that realloc can be followed.
  static void fill_block(const Block& block) {
    fill(block.start, block.size, block.seed);
    fill_range(block.start, 0, std::min(block.size, kWholeUpTo), block.seed);
  }
  static void expect_pattern(const Block& block) {
    demand(holds(block.start, block.size, block.seed), "a block lost its pattern", block.size);
  }

  std::vector<Block> blocks_;
};

void expect_sound() { demand(near_check() == 0, "near_check() found damage"); }

void use_every_kind(Blocks& blocks, Random& random) {
  for (int i = 0; i < 1'500; i++) blocks.allocate(random.size_up_to(10));
  for (int i = 0; i < 350; i++) blocks.release(random.below(1'000'000));
  blocks.release_at_once(350, random);
  for (int i = 0; i < 150; i++) blocks.allocate(1'024 + random.below(31 * 1'024));
  for (int i = 0; i < 200; i++) blocks.resize(random.below(1'000'000), random.size_up_to(14));
  blocks.allocate(3'000'000);  // across chunks
  blocks.resize(blocks.count() - 1, 5'000'000);
  for (size_t size = 40'000; size < 700'000; size *= 2) {
    blocks.allocate(size);
    blocks.allocate_zeroed(size + 1'000);
    blocks.resize(blocks.count() - 1, 2 * size);
    blocks.release(blocks.count() - 2);
    blocks.resize(blocks.count() - 1, size / 2);
  }
  for (int i = 0; i < 100; i++) blocks.allocate_zeroed(random.size_up_to(13));
  for (size_t alignment = 16; alignment <= 2'100'000; alignment *= 2) {
    blocks.allocate_aligned(alignment, random.size_up_to(16));
  }
  blocks.expect_patterns();
}

void use_threads(Blocks& blocks, Random& random) {
  for (unsigned t = 0; t < 3; t++) {
    on_cpu(t % near::topology.count, [&] {
      for (int i = 0; i < 150; i++) blocks.release(random.below(1'000'000));  // of other threads
      blocks.release_at_once(150, random);
      for (int i = 0; i < 400; i++) blocks.allocate(random.size_up_to(13));
      blocks.allocate(300'000);
      expect_sound();
    });
  }
  // Two heaps side by side, and what they freed for each other.
  Worker one(0);
  Worker other(1 % near::topology.count);
  for (int round = 0; round < 6; round++) {
    one([&] {
      for (int i = 0; i < 200; i++) blocks.allocate(random.size_up_to(12));
    });
    other([&] {
      for (int i = 0; i < 150; i++) blocks.release(random.below(1'000'000));
      for (int i = 0; i < 50; i++) blocks.allocate(random.size_up_to(15));
    });
  }
  blocks.expect_patterns();
}

// After the faults all of this has to work, whatever was refused before.
void expect_recovery(Blocks& blocks) {
  fake_os::fail_none();
  fake_os::set_address_space_limit(SIZE_MAX);
  fake_os::set_commit_limit(SIZE_MAX);
  const size_t before = refused;
  for (size_t size = 1; size < 5'000'000; size = size * 3 / 2 + 1) {
    blocks.allocate(size);
    blocks.allocate_zeroed(size);
    blocks.resize(blocks.count() - 1, size * 2);
  }
  blocks.allocate_aligned(1 << 20, 100);
  on_cpu(0, [&] {
    for (size_t size = 1; size < 100'000; size *= 2) blocks.allocate(size);
  });
  demand(refused == before, "refused though no fault was left", refused - before);
}

void run() {
  near::topology.real = near::topology.count > 1;  // regions added from here on are bound
  Random random(2024);
  Blocks blocks;
  use_every_kind(blocks, random);
  expect_sound();
  use_threads(blocks, random);
  expect_sound();
  near_malloc_trim(0);
  blocks.expect_patterns();
  expect_sound();
  while (blocks.count() > 50) blocks.release(random.below(1'000'000));
  use_every_kind(blocks, random);
  expect_sound();
  const uint64_t hit = fake_os::refusals();
  const size_t during = refused;
  uint64_t calls[kOsCalls + 1];
  for (unsigned i = 0; i <= kOsCalls; i++) calls[i] = fake_os::calls(static_cast<OsCall>(i));
  expect_recovery(blocks);
  blocks.expect_patterns();
  blocks.release_all();
  near_malloc_trim(0);
  expect_sound();
  for (unsigned i = 0; i <= kOsCalls; i++) {
    std::printf("%s=%zu ", name_of(static_cast<OsCall>(i)), static_cast<size_t>(calls[i]));
  }
  std::printf("hit=%zu refused=%zu operations=%zu\n", static_cast<size_t>(hit), during, operations);
}

}  // namespace
}  // namespace near_test

int main() {
  near_test::run();
  return 0;
}

// Threads that move to another node: each allocates a set of blocks, moves on (with --migrate) and
// replaces random blocks of a second set, which it allocates there. Only the second part is
// measured, and it does not touch the first set, so the allocator alone decides on which node the
// blocks are. One large block, before, lets the allocator notice the move. Our own.
#include "workload.h"

namespace {

constexpr size_t kLarge = 64 << 10;

}  // namespace

int main(int argc, char** argv) {
  size_t threads = 2, blocks = 1000, operations = 10'000'000, low = 16, high = 1024;
  workload::Workload workload("migration", "threads come to another node and go on there");
  workload.count("--threads", threads, "threads");
  workload.count("--blocks", blocks, "blocks in each of a thread's two sets");
  workload.count("--operations", operations, 1'000'000, "replacements by one thread");
  workload.sizes(low, high);
  workload.parse(argc, argv);

  const workload::Sizes sizes(low, high);
  std::vector<workload::Blocks> before(threads, workload::Blocks(blocks));
  const auto prepare = [&](workload::Worker& worker, size_t index) {
    workload::Random random(index + 1);
    for (workload::Block& block : before[index]) block = worker.allocate(sizes.pick(random));
    workload::move_on();
    worker.release(worker.allocate(kLarge));
    return random;
  };
  workload.run_prepared(threads, prepare, [&](workload::Worker& worker, workload::Random& random) {
    workload::Blocks held(blocks);
    for (workload::Block& block : held) block = worker.allocate(sizes.pick(random));
    for (size_t i = 0; i < operations; ++i) workload::replace_one(worker, held, sizes, random);
    for (const workload::Block& block : held) worker.release(block);
  });

  workload::Worker last(threads);
  for (const workload::Blocks& set : before) {
    for (const workload::Block& block : set) last.release(block);
  }
  workload.join(last);
  return workload.report();
}

// Each thread holds a set of blocks of very different sizes and keeps replacing random ones: the
// steady state of a program with caches. It tests reuse inside partly filled spans. Our own.
#include "workload.h"

int main(int argc, char** argv) {
  size_t threads = 2, blocks = 20'000, operations = 50'000'000, low = 16, high = 4096;
  workload::Workload workload("churn", "replaces random blocks of a set, sizes mostly small");
  workload.count("--threads", threads, "threads");
  workload.count("--blocks", blocks, "live blocks of one thread");
  workload.count("--operations", operations, 5'000'000, "replacements by one thread");
  workload.sizes(low, high);
  workload.parse(argc, argv);

  const workload::Sizes sizes(low, high);
  workload.run(threads, [&](workload::Worker& worker, size_t index) {
    workload::Random random(index + 1);
    workload::Blocks held(blocks);
    for (workload::Block& block : held) block = worker.allocate(sizes.pick(random));
    for (size_t i = 0; i < operations; ++i) workload::replace_one(worker, held, sizes, random);
    for (const workload::Block& block : held) worker.release(block);
  });
  return workload.report();
}
